"""Training A and B: handlers start and stop jobs and read their files; the work is done by processes of their own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import gradio as gr

from frostbench.app import jobs
from frostbench.app.finding import collect, keys_of
from frostbench.app.jobs import Job
from frostbench.app.page.common import QUIET, Pair, as_text, kept_text
from frostbench.app.page.progress import LOADING, lines_html, progress_html
from frostbench.app.page.state import SIDES, Form, bench_for, read_form, runs_of
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.settings.plugins import check_allowed

UNENDED = ("queued", "running")
SECONDS = 1.0
"""Between two looks at the files of jobs that are at work."""


@dataclass(frozen=True)
class Training:
    """The buttons and what shows the jobs' progress.

    Attributes:
        copy: the button that copies A to B.
        start: buttons by the sides that they train.
        lines: the state of both jobs, a line each, which stays in view.
        progress: what else is known of both jobs.
        cancel: a button for each side.
        tick: the clock that looks at unfinished jobs.
        ready: the job of each side as text, once both have ended with a run; empty before.
    """

    copy: gr.Button
    start: dict[tuple[str, ...], gr.Button]
    lines: gr.HTML
    progress: gr.HTML
    cancel: dict[str, gr.Button]
    tick: gr.Timer
    ready: gr.Textbox

    @property
    def outputs(self) -> list[Any]:
        """What `shown` fills, in its order."""
        return [self.lines, self.progress, *self.cancel.values(), self.tick, self.ready]


def build_training() -> Training:
    """Lay out the buttons and one line for each job; `progress` is rendered where the page wants it.

    The buttons wait for the form: until its values are there, nobody knows what they would train.
    """
    off: dict[str, Any] = {"size": "sm", "interactive": False}
    with gr.Row(elem_classes="fp-buttons"):
        copy = gr.Button("Copy A to B", elem_id="copy", **off)
        start = {
            ("A",): gr.Button("Train A", elem_id="train-A", **off),
            ("B",): gr.Button("Train B", elem_id="train-B", **off),
            SIDES: gr.Button("Train A and B, then compare", variant="primary", elem_id="train-both", **off),
        }
    with gr.Row(elem_classes="fp-lines"):
        lines = gr.HTML(LOADING, elem_id="lines", apply_default_css=False)
        cancel = {
            side: gr.Button(f"Cancel {side}", size="sm", visible=False, elem_id=f"cancel-{side}", min_width=90)
            for side in SIDES
        }
    progress = gr.HTML("", elem_id="progress", apply_default_css=False, render=False)
    return Training(copy, start, lines, progress, cancel, gr.Timer(SECONDS, active=False), kept_text())


def wire_training(training: Training, workspace: Workspace, pair: gr.BrowserState) -> None:
    """Connect the buttons and the clock; the form's values come from its script."""
    sent, one = gr.JSON(visible=False), Lock()
    for sides, button in training.start.items():
        button.click(
            _starter(workspace, sides, one),
            [pair, sent],
            [pair, *training.outputs],
            js="(pair, _) => [pair, window.frostbench.form()]",
            **QUIET,
        )

    def look(known: Pair | None) -> list[Any]:
        jobs.advance(workspace.store, workspace.plugins)
        return shown(known or {}, workspace)

    training.tick.tick(look, pair, training.outputs, **QUIET)
    for side, button in training.cancel.items():
        button.click(_canceller(workspace, side), pair, training.outputs, **QUIET)


def _starter(workspace: Workspace, sides: Sequence[str], one: Lock) -> Callable[..., list[Any]]:
    def start(known: Pair | None, tree: Any) -> list[Any]:
        with one:
            pair = dict(known or {}) | submit(read_form(tree), sides, workspace)
        return [pair, *shown(pair, workspace)]

    return start


def submit(form: Form, sides: Sequence[str], workspace: Workspace) -> Pair:
    """Start the jobs of some sides, or find what they would train; returns their ids by side.

    Raises:
        gr.Error: a side cannot be trained as the form stands, or the store takes no job.
    """
    runs, errors = runs_of(form, workspace)
    wrong = [f"{side}: {errors[side]}" for side in sides if errors[side]]
    if wrong:
        raise gr.Error(". ".join(wrong), print_exception=False)
    try:
        for side in sides:
            check_allowed(runs[side], workspace.plugins)
        benches = {side: bench_for(form, runs[side], side, workspace) for side in sides}
        return {side: submit_one(side, bench, workspace) for side, bench in benches.items()}
    except (ValueError, OSError) as error:
        raise gr.Error(str(error), print_exception=False) from error


def submit_one(side: str, bench: dict[str, Any], workspace: Workspace) -> str:
    """A job for what a side asks for; one without a worker where all of its runs are there, in whichever store.

    Raises:
        JobError: the store takes no job.
        OSError: the store cannot be written.
    """
    keys = keys_of(bench)
    is_there, stores = collect(keys, workspace)
    if is_there:
        return jobs.submit_found(workspace.store, side, bench, keys, stores=list(map(str, stores)))
    limits: dict[str, Any] = {"slots": workspace.slots, "device": workspace.device, "plugins": workspace.plugins}
    return jobs.submit(workspace.store, side, bench, keys=keys, **limits)


def _canceller(workspace: Workspace, side: str) -> Callable[..., list[Any]]:
    def cancel(known: Pair | None) -> list[Any]:
        if known and side in known:
            jobs.cancel(workspace.store, known[side], workspace.plugins)
        return shown(known or {}, workspace)

    return cancel


def shown(pair: Pair, workspace: Workspace) -> list[Any]:
    """Progress, cancel buttons, the clock and what is ready, as the files of a pair's jobs say."""
    found = {side: jobs.read(workspace.store, pair[side], workspace.plugins) for side in SIDES if side in pair}
    curves = {side: jobs.curves(workspace.store, job.id) for side, job in found.items()}
    logs = {
        side: jobs.log_tail(workspace.store, job.id) for side, job in found.items() if job.state in ("failed", "lost")
    }
    at_work = [side for side, job in found.items() if job.state in UNENDED]
    buttons = [_cancel_button(side, found.get(side)) for side in SIDES]
    idle = "" if found else workspace.told_runs()
    told = [lines_html(found, idle), progress_html(found, curves, logs)]
    return [*told, *buttons, gr.Timer(active=bool(at_work)), as_text(ready_of(found))]


def _cancel_button(side: str, job: Job | None) -> Any:
    unended = job is not None and job.state in UNENDED
    words = f"Stop {side} now" if job is not None and job.stopping else f"Cancel {side}"
    return gr.update(visible=unended, value=words)


def ready_of(found: Mapping[str, Job]) -> Pair | None:
    """The jobs of both sides, where both have ended and left a run."""
    if any(side not in found or found[side].state in UNENDED or not found[side].keys for side in SIDES):
        return None
    return {side: found[side].id for side in SIDES}


def attach(known: Any, asked: Mapping[str, str], workspace: Workspace) -> list[Any]:
    """The pair that a page shows when it opens: the address's, else this browser's, else the newest; and its state.

    Args:
        known: what the browser kept.
        asked: the address's parameters; `a` and `b` name jobs.
        workspace: where jobs are.
    """
    jobs.advance(workspace.store, workspace.plugins)
    there = set(jobs.jobs(workspace.store))
    kept = known if isinstance(known, dict) else {}
    pair = {}
    for side in SIDES:
        wanted = [asked.get(side.lower()), kept.get(side), jobs.newest(workspace.store, side)]
        chosen = next((job for job in wanted if isinstance(job, str) and job in there), None)
        if chosen is not None:
            pair[side] = chosen
    return [pair, *shown(pair, workspace)]
