"""Trying an image on both heads: embedded once, then the sliders only move the logits."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import gradio as gr

from app import jobs
from app.page.common import QUIET
from app.page.pieces import MARKS
from app.page.state import SIDES
from app.workspace import Workspace

if TYPE_CHECKING:
    from app.trial import Trial

SHOWN = 5
EMPTY = (
    '<div class="fp fp-empty" data-testid="try" data-state="empty">Give an image to see what A and B make of it.</div>'
)
UNTRAINED = '<div class="fp fp-empty" data-testid="try" data-state="untrained">Train A and B first.</div>'


@dataclass(frozen=True)
class Try:
    """The image, the sliders and the answers; `trials` holds the logits of the image at hand."""

    image: gr.Image
    temperature: gr.Slider
    prior: gr.Slider
    shown: gr.HTML
    trials: gr.State


def build_try() -> Try:
    """Lay out the section."""
    with gr.Row(elem_classes="fp-try"):
        with gr.Column(min_width=280):
            image = gr.Image(
                type="filepath", sources=["upload", "clipboard"], label="An image", height=240, elem_id="try-image"
            )
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
    return Try(image, temperature, prior, shown, gr.State(None))


def wire_try(trying: Try, ready: gr.State, workspace: Workspace) -> None:
    """An image is embedded when it comes or other heads do; sliders reuse its logits."""

    def embed(path: str | None, known: Mapping[str, str] | None, temperature: float, prior: float) -> list[Any]:
        if path is None:
            return [None, EMPTY]
        if known is None:
            return [None, UNTRAINED]
        trials = {side: _tried(path, known[side], workspace) for side in SIDES}
        return [trials, answers_html(trials, temperature, prior)]

    def move(trials: dict[str, Any] | None, temperature: float, prior: float) -> Any:
        return gr.skip() if trials is None else answers_html(trials, temperature, prior)

    sliders = [trying.temperature, trying.prior]
    gr.on(
        [trying.image.change, ready.change],
        embed,
        [trying.image, ready, *sliders],
        [trying.trials, trying.shown],
        show_progress_on=trying.shown,
        api_visibility="private",
    )
    moved = [slider.input for slider in sliders]
    gr.on(moved, move, [trying.trials, *sliders], trying.shown, trigger_mode="always_last", **QUIET)


def _tried(path: str, job: str, workspace: Workspace) -> "Trial | str":
    """The head's answer, or why there is none."""
    from app.trial import try_image

    try:
        keys = jobs.read(workspace.store, job).keys
        return try_image(path, workspace.store, keys, workspace.device, workspace.plugins)
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
    from app.trial import probabilities

    found = probabilities(trial, temperature, prior)
    order = sorted(range(len(found)), key=lambda c: -found[c])[:SHOWN]
    rows = "".join(
        f'<li><span class="fp-name">{escape(trial.class_names[c])}</span><span class="fp-bar"><i class="fp-{side}" '
        f'style="width:{100 * found[c]:.1f}%"></i></span><span class="fp-share">{100 * found[c]:.1f} %</span></li>'
        for c in order
    )
    return (
        f'<section class="fp-card" data-testid="answer-{side}" data-state="done" data-run="{escape(trial.key)}" '
        f'data-class="{escape(trial.class_names[order[0]])}">{head}<ol class="fp-bars">{rows}</ol></section>'
    )
