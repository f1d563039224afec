"""Trying an image on both heads: embedded once, then the sliders only move the logits."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

import gradio as gr

from frostbench.app import jobs
from frostbench.app.page.common import QUIET, as_pair
from frostbench.app.page.pieces import MARKS
from frostbench.app.page.state import SIDES
from frostbench.app.uploads import Upload, UploadError, Uploads
from frostbench.app.workspace import Workspace

if TYPE_CHECKING:
    from frostbench.app.trial import Trial

SHOWN = 5
EMPTY = (
    '<div class="fp fp-empty" data-testid="try" data-state="empty">Give an image to see what A and B make of it.</div>'
)
UNTRAINED = '<div class="fp fp-empty" data-testid="try" data-state="untrained">Train A and B first.</div>'
PICKER = (
    '<div class="fp fp-drop" data-testid="image" data-state="empty"><label class="fp-button">Choose an image'
    '<input type="file" aria-label="An image"></label><span>or drop or paste one here</span>'
    '<img hidden alt=""><p role="status"></p></div>'
)


@dataclass(frozen=True)
class Try:
    """The image, the sliders and the answers; `chosen` is the number under which the server keeps the image."""

    image: gr.HTML
    chosen: gr.JSON
    temperature: gr.Slider
    prior: gr.Slider
    shown: gr.HTML


def build_try() -> Try:
    """Lay out the section."""
    script = (resources.files("frostbench.app.page") / "trying.js").read_text("utf-8")
    with gr.Row(elem_classes="fp-try"):
        with gr.Column(min_width=280):
            image = gr.HTML(PICKER, js_on_load=script, apply_default_css=False, elem_id="try-image")
            temperature = gr.Slider(
                0.25, 4, 1, step=0.05, label="Temperature", elem_id="try-temperature", interactive=True,
                info="Above 1 less sure, below 1 surer; the first class stays. 1 is the head as trained.",
            )  # fmt: skip
            prior = gr.Slider(
                0, 1, 0, step=0.05, label="Class prior", elem_id="try-prior", interactive=True,
                info="0: classes as frequent as in training. 1: all classes equally frequent.",
            )  # fmt: skip
        with gr.Column(min_width=280):
            shown = gr.HTML(EMPTY, elem_id="try", apply_default_css=False)
    return Try(image, gr.JSON(visible=False), temperature, prior, shown)


def wire_try(trying: Try, ready: gr.Textbox, workspace: Workspace, uploads: Uploads) -> None:
    """An image is embedded when it comes or other heads do; sliders reuse its logits."""

    def answer(chosen: Any, text: str, temperature: float, prior: float) -> str:
        return answered(chosen, as_pair(text), temperature, prior, workspace, uploads)

    given = [trying.chosen, ready, trying.temperature, trying.prior]
    sent = "(_, ...rest) => [window.frostbench_image ?? null, ...rest]"
    usual: dict[str, Any] = {"queue": False, "api_visibility": "private", "js": sent}
    gr.on([trying.image.upload, ready.change], answer, given, trying.shown, show_progress_on=trying.shown, **usual)
    moved = [trying.temperature.input, trying.prior.input]
    gr.on(moved, answer, given, trying.shown, trigger_mode="always_last", **QUIET, js=sent)


def answered(
    chosen: Any,
    known: Mapping[str, str] | None,
    temperature: float,
    prior: float,
    workspace: Workspace,
    uploads: Uploads,
) -> str:
    """What both heads make of an image, as HTML.

    Args:
        chosen: the number of the image, as a browser sent it; None without one.
        known: the job of each side, where both are ready.
        temperature: as for `frostbench.app.trial.probabilities`, and so is prior.
        prior: see there.
        workspace: where runs are.
        uploads: where images are.
    """
    if chosen is None:
        return EMPTY
    if known is None:
        return UNTRAINED
    try:
        upload = uploads.get(str(chosen))
    except UploadError as error:
        return answers_html(dict.fromkeys(SIDES, str(error)), temperature, prior)
    return answers_html({side: _tried(upload, known[side], workspace) for side in SIDES}, temperature, prior)


def _tried(upload: Upload, job: str, workspace: Workspace) -> "Trial | str":
    """The head's answer, or why there is none."""
    from frostbench.app.trial import try_image

    try:
        keys = jobs.read(workspace.store, job).keys
        return try_image(upload.path, upload.name, workspace.store, keys, workspace.device, workspace.plugins)
    except (ValueError, OSError, ModuleNotFoundError) as error:
        return str(error)


def answers_html(trials: Mapping[str, "Trial | str"], temperature: float, prior: float) -> str:
    """The most probable classes of both heads, side by side."""
    cards = "".join(_answer(side, trials[side], temperature, prior) for side in SIDES)
    state = "failed" if all(isinstance(trial, str) for trial in trials.values()) else "done"
    return f'<div class="fp fp-answers" data-testid="try" data-state="{state}">{cards}</div>'


def _answer(side: str, trial: "Trial | str", temperature: float, prior: float) -> str:
    head = f'<h3 class="fp-side fp-{side}"><span aria-hidden="true">{MARKS[side]}</span> {side}</h3>'
    if isinstance(trial, str):
        said = f"{head}<p>{escape(trial)}</p>"
        return f'<section class="fp-card" data-testid="answer-{side}" data-state="failed">{said}</section>'
    from frostbench.app.trial import decided, probabilities

    found = probabilities(trial, temperature, prior)
    order = sorted(range(len(found)), key=lambda c: -found[c])[:SHOWN]
    rows = "".join(
        f'<li><span class="fp-name">{escape(trial.class_names[c])}</span><span class="fp-bar"><i class="fp-{side}" '
        f'style="width:{100 * found[c]:.1f}%"></i></span><span class="fp-share">{100 * found[c]:.1f} %</span></li>'
        for c in order
    )
    choice = decided(trial)
    is_other = (temperature, prior) == (1, 0) and choice != trial.class_names[order[0]]
    told = f"<p>With its cut-offs the head chooses <b>{escape(choice)}</b>.</p>" if is_other else ""
    shown = choice if is_other else trial.class_names[order[0]]
    return (
        f'<section class="fp-card" data-testid="answer-{side}" data-state="done" data-run="{escape(trial.key)}" '
        f'data-class="{escape(shown)}">{head}<ol class="fp-bars">{rows}</ol>{told}</section>'
    )
