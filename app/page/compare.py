"""The comparison of the two sides: automatic on validation rows, on test rows only after a confirmation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from frostbench.app import jobs
from frostbench.app.page.common import QUIET, decode_pair
from frostbench.app.page.form import SIDES
from frostbench.app.page.job_text import runs_html
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.settings.nouns import with_noun

if TYPE_CHECKING:
    # Imported by `frostbench.app.page.launch` after the page has started, so that it starts faster.
    from frostbench.benchmarks.comparison.ab import Pair
    from frostbench.benchmarks.comparison.compare import Role

EMPTY = (
    '<div class="fp fp-empty" data-testid="compare" data-state="empty">Train A and B to see whether the difference is '
    "real, which classes changed, and how well the probabilities are calibrated.</div>"
)


@dataclass(frozen=True)
class Compare:
    """The comparison and the buttons that reveal the test rows."""

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
            "Confirm: reveal the test rows", size="sm", variant="stop", visible=False, elem_id="really-reveal"
        )
        back = gr.Button("Back to validation", size="sm", visible=False, elem_id="back-to-validation")
    return Compare(shown, reveal, really, back)


def wire_compare(compare: Compare, ready: gr.Textbox, workspace: Workspace) -> None:
    """Compare as soon as both sides are ready; the test rows need two clicks."""
    outputs = [compare.shown, compare.reveal, compare.really, compare.back]

    def validation(text: str) -> list[Any]:
        ids, hidden = decode_pair(text), gr.update(visible=False)
        if ids is None:
            return [EMPTY, gr.update(interactive=False, visible=True), hidden, hidden]
        return [_comparison_html(ids, "select", workspace), gr.update(interactive=True, visible=True), hidden, hidden]

    def confirm(text: str) -> list[Any]:
        return [gr.skip(), gr.update(visible=False), gr.update(visible=True), gr.update(visible=True)]

    def test(text: str) -> list[Any]:
        ids = decode_pair(text)
        if ids is None:
            raise gr.Error("Train A and B first.", print_exception=False)
        html = _comparison_html(ids, "test", workspace)
        return [html, gr.update(visible=False), gr.update(visible=False), gr.update(visible=True)]

    ready.change(validation, ready, outputs, **QUIET)
    compare.reveal.click(confirm, ready, outputs, **QUIET)
    compare.really.click(test, ready, outputs, **QUIET)
    compare.back.click(validation, ready, outputs, **QUIET)


def _comparison_html(ids: Mapping[str, str], role: "Role", workspace: Workspace) -> str:
    """Return the comparison of two jobs' runs as HTML, or the reason why they cannot be compared."""
    from frostbench.app.reveals import count_reveals, note_reveal
    from frostbench.app.views.compare import compare_html, impossible_html
    from frostbench.benchmarks.comparison.ab import pair

    header = ""
    try:
        read = {side: jobs.read(workspace.store, ids[side]) for side in SIDES}
        header, keys = runs_html(read), {side: list(job.keys.values()) for side, job in read.items()}
        compared = pair(workspace.store, keys["A"], keys["B"], role)
        times = note_reveal(workspace.store, compared) if role == "test" else count_reveals(workspace.store, compared)
        return header + compare_html(compared) + _reveals_html(compared, times)
    except ValueError as error:
        return header + impossible_html(error)


def _reveals_html(compared: "Pair", times: int) -> str:
    """Return how often these rows were used for comparisons, because every use biases later ones."""
    runs = compared.comparison.runs_seen
    revealed = {0: "have never been revealed", 1: "have been revealed once"}.get(
        times, f"have been revealed {times} times"
    )
    return (
        f'<p class="fp fp-counted" data-testid="looked" data-n="{times}">The store holds {with_noun(runs, "run")} '
        f"evaluated on these rows. The test rows of this split {revealed} on this page.</p>"
    )
