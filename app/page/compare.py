"""Comparing the two sides: on validation by itself, on the test rows only when asked twice."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from frostbench.app import jobs
from frostbench.app.page.common import QUIET, as_pair
from frostbench.app.page.job_text import runs_html
from frostbench.app.page.state import SIDES
from frostbench.app.workspace import Workspace

if TYPE_CHECKING:
    # Imported with the first comparison, or by `frostbench.app.page.launch` once the page is up: it starts sooner so.
    from frostbench.benchmarks.comparison.ab import Pair
    from frostbench.benchmarks.comparison.compare import Role

EMPTY = (
    '<div class="fp fp-empty" data-testid="compare" data-state="empty">When A and B are both trained, this shows what '
    "changed: whether the difference is real, for which classes, and whether the probabilities can be trusted.</div>"
)


@dataclass(frozen=True)
class Compare:
    """The comparison and the steps to the test rows."""

    shown: gr.HTML
    reveal: gr.Button
    really: gr.Button
    back: gr.Button


def build_compare() -> Compare:
    """Lay out the comparison."""
    shown = gr.HTML(EMPTY, elem_id="compare", apply_default_css=False)
    with gr.Row(elem_classes="fp-buttons"):
        reveal = gr.Button("Reveal the test rows…", size="sm", interactive=False, elem_id="reveal")
        really = gr.Button(
            "Really reveal: I am done choosing", size="sm", variant="stop", visible=False, elem_id="really-reveal"
        )
        back = gr.Button("Back to validation", size="sm", visible=False, elem_id="back-to-validation")
    return Compare(shown, reveal, really, back)


def wire_compare(compare: Compare, ready: gr.Textbox, workspace: Workspace) -> None:
    """Compare as soon as both sides are ready; the test needs two clicks."""
    outputs = [compare.shown, compare.reveal, compare.really, compare.back]

    def validation(text: str) -> list[Any]:
        known = as_pair(text)
        if known is None:
            return [EMPTY, gr.update(interactive=False, visible=True), *_hidden()]
        return [_compared(known, "select", workspace), gr.update(interactive=True, visible=True), *_hidden()]

    def ask(text: str) -> list[Any]:
        return [gr.skip(), gr.update(visible=False), gr.update(visible=True), gr.update(visible=True)]

    def test(text: str) -> list[Any]:
        known = as_pair(text)
        if known is None:
            raise gr.Error("Train A and B first.", print_exception=False)
        told = _compared(known, "test", workspace)
        return [told, gr.update(visible=False), gr.update(visible=False), gr.update(visible=True)]

    ready.change(validation, ready, outputs, **QUIET)
    compare.reveal.click(ask, ready, outputs, **QUIET)
    compare.really.click(test, ready, outputs, **QUIET)
    compare.back.click(validation, ready, outputs, **QUIET)


def _hidden() -> list[Any]:
    return [gr.update(visible=False), gr.update(visible=False)]


def _compared(known: Mapping[str, str], role: "Role", workspace: Workspace) -> str:
    """The comparison of two jobs' runs as HTML; what stands in its way is said in its place."""
    from frostbench.app.reveals import count_reveals, note_reveal
    from frostbench.app.views.compare import compare_html, impossible_html
    from frostbench.benchmarks.comparison.ab import pair

    told = ""
    try:
        read = {side: jobs.read(workspace.store, known[side]) for side in SIDES}
        told, keys = runs_html(read), {side: list(job.keys.values()) for side, job in read.items()}
        found = pair(workspace.store, keys["A"], keys["B"], role)
        times = note_reveal(workspace.store, found) if role == "test" else count_reveals(workspace.store, found)
        return told + compare_html(found) + _counted(found, times)
    except ValueError as error:
        return told + impossible_html(error)


def _counted(found: "Pair", times: int) -> str:
    """How often people have looked at these rows: each look makes the next one worth a little less."""
    runs = found.comparison.runs_seen
    looked = {0: "have never been revealed", 1: "have been revealed once"}.get(
        times, f"have been revealed {times} times"
    )
    return (
        f'<p class="fp fp-counted" data-testid="looked" data-n="{times}">The store holds {runs} '
        f"run{'s' if runs != 1 else ''} judged on these rows; the test rows of this split {looked} on this page.</p>"
    )
