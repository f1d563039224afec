"""The section that tries an image on both heads: each embeds it once, and the sliders reuse its logits."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

import gradio as gr

from frostbench.app import jobs
from frostbench.app.page.common import QUIET, decode_pair
from frostbench.app.page.form import SIDES
from frostbench.app.page.pieces import side_html
from frostbench.app.uploads import Upload, UploadError, Uploads
from frostbench.app.workspace import Workspace

if TYPE_CHECKING:
    from frostbench.app.trial import Trial

SHOWN = 5
EMPTY = (
    '<div class="fp fp-empty" data-testid="try" data-state="empty">Choose an image to see the predictions of A and '
    "B.</div>"
)
UNTRAINED = '<div class="fp fp-empty" data-testid="try" data-state="untrained">Train A and B first.</div>'
PICKER = (
    '<div class="fp fp-drop" data-testid="image" data-state="empty"><label class="fp-button">Choose an image'
    '<input type="file" aria-label="Image"></label><span>or drop or paste one here</span>'
    '<img hidden alt=""><p role="status"></p></div>'
)


@dataclass(frozen=True)
class Try:
    """The image, the sliders and the predictions; `chosen` is the server's ID of the image."""

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
                info="Above 1: less confident. Below 1: more confident. The most probable class stays the same.",
            )  # fmt: skip
            prior = gr.Slider(
                0, 1, 0, step=0.05, label="Class prior", elem_id="try-prior", interactive=True,
                info="0: class frequencies as in training. 1: all classes equally frequent.",
            )  # fmt: skip
        with gr.Column(min_width=280):
            shown = gr.HTML(EMPTY, elem_id="try", apply_default_css=False)
    return Try(image, gr.JSON(visible=False), temperature, prior, shown)


def wire_try(trying: Try, ready: gr.Textbox, workspace: Workspace, uploads: Uploads) -> None:
    """Embed the image when it or the heads change; the sliders reuse its logits."""

    def predict(chosen: Any, text: str, temperature: float, prior: float) -> str:
        return predictions_html(chosen, decode_pair(text), temperature, prior, workspace, uploads)

    inputs = [trying.chosen, ready, trying.temperature, trying.prior]
    script = "(_, ...rest) => [window.frostbench_image ?? null, ...rest]"
    slow: dict[str, Any] = {"queue": False, "api_visibility": "private", "show_progress_on": trying.shown}
    gr.on([trying.image.upload, ready.change], predict, inputs, trying.shown, **slow, js=script)
    sliders = [trying.temperature.input, trying.prior.input]
    gr.on(sliders, predict, inputs, trying.shown, trigger_mode="always_last", **QUIET, js=script)


def predictions_html(
    chosen: Any,
    ids: Mapping[str, str] | None,
    temperature: float,
    prior: float,
    workspace: Workspace,
    uploads: Uploads,
) -> str:
    """Return the predictions of both heads for an image as HTML.

    Args:
        chosen: image ID sent by the browser, or None.
        ids: job ID of each side, or None before both are trained.
        temperature: see `frostbench.app.trial.probabilities`.
        prior: see `frostbench.app.trial.probabilities`.
        workspace: workspace of the page.
        uploads: uploaded images.
    """
    if chosen is None:
        return EMPTY
    if ids is None:
        return UNTRAINED
    try:
        upload = uploads.get(str(chosen))
    except UploadError as error:
        return answers_html(dict.fromkeys(SIDES, str(error)), temperature, prior)
    return answers_html({side: _try(upload, ids[side], workspace) for side in SIDES}, temperature, prior)


def _try(upload: Upload, job: str, workspace: Workspace) -> "Trial | str":
    """Return the head's prediction, or an error message."""
    from frostbench.app.trial import try_image

    try:
        keys = jobs.read(workspace.store, job).keys
        return try_image(upload.path, upload.name, workspace.store, keys, workspace.device, workspace.plugins)
    except (ValueError, OSError, ModuleNotFoundError) as error:
        return str(error)


def answers_html(trials: Mapping[str, "Trial | str"], temperature: float, prior: float) -> str:
    """Return the most probable classes of both heads, side by side."""
    cards = "".join(_answer(side, trials[side], temperature, prior) for side in SIDES)
    state = "failed" if all(isinstance(trial, str) for trial in trials.values()) else "done"
    return f'<div class="fp fp-answers" data-testid="try" data-state="{state}">{cards}</div>'


def _answer(side: str, trial: "Trial | str", temperature: float, prior: float) -> str:
    head = side_html(side, "h3")
    if isinstance(trial, str):
        error = f"{head}<p>{escape(trial)}</p>"
        return f'<section class="fp-card" data-testid="answer-{side}" data-state="failed">{error}</section>'
    from frostbench.app.trial import decided, probabilities

    p = probabilities(trial, temperature, prior)
    order = sorted(range(len(p)), key=lambda c: -p[c])[:SHOWN]
    rows = "".join(
        f'<li><span class="fp-name">{escape(trial.class_names[c])}</span><span class="fp-bar"><i class="fp-{side}" '
        f'style="width:{100 * p[c]:.1f}%"></i></span><span class="fp-share">{100 * p[c]:.1f} %</span></li>'
        for c in order
    )
    decision = decided(trial)
    is_other = (temperature, prior) == (1, 0) and decision != trial.class_names[order[0]]
    note = f"<p>With its decision thresholds the head predicts <b>{escape(decision)}</b>.</p>" if is_other else ""
    predicted = decision if is_other else trial.class_names[order[0]]
    return (
        f'<section class="fp-card" data-testid="answer-{side}" data-state="done" data-run="{escape(trial.key)}" '
        f'data-class="{escape(predicted)}">{head}<ol class="fp-bars">{rows}</ol>{note}</section>'
    )
