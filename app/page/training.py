"""The training section: handlers that start, watch and stop the jobs of A and B, which run in their own processes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import gradio as gr

from frostbench.app import jobs
from frostbench.app.jobs import Job
from frostbench.app.jobs.records import UNFINISHED
from frostbench.app.page.common import QUIET, Pair, encode_pair, hidden_text
from frostbench.app.page.form import SIDES, Form, read_form
from frostbench.app.page.progress import LOADING, lines_html, progress_html
from frostbench.app.page.state import bench_for, runs_of
from frostbench.app.starting import submit_one
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.settings.plugins import check_allowed

POLL_SECONDS = 1.0
"""Polling period for unfinished jobs."""


@dataclass(frozen=True)
class Training:
    """The buttons and the progress of the jobs.

    Attributes:
        copy: button that copies A to B.
        start: buttons by the sides that they train.
        lines: state of both jobs, one line each, always visible.
        progress: details of both jobs.
        cancel: cancel button of each side.
        tick: timer that polls unfinished jobs.
        ready: encoded pair of jobs once both have ended with a run; empty before.
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
        """The components that `job_updates` sets, in its order."""
        return [self.lines, self.progress, *self.cancel.values(), self.tick, self.ready]


def build_training() -> Training:
    """Lay out the buttons and one line per job; `progress` is rendered later.

    The buttons are disabled until the form has its values.
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
    return Training(copy, start, lines, progress, cancel, gr.Timer(POLL_SECONDS, active=False), hidden_text())


def wire_training(training: Training, workspace: Workspace, pair: gr.BrowserState) -> None:
    """Connect the buttons and the timer; the form's script supplies the form's values."""
    form, lock = gr.JSON(visible=False), Lock()
    for sides, button in training.start.items():
        button.click(
            _starter(workspace, sides, lock),
            [pair, form],
            [pair, *training.outputs],
            js="(pair, _) => [pair, window.frostbench.form()]",
            **QUIET,
        )

    def poll(stored: Pair | None) -> list[Any]:
        jobs.advance(workspace.store, workspace.plugins)
        return job_updates(stored or {}, workspace)

    training.tick.tick(poll, pair, training.outputs, **QUIET)
    for side, button in training.cancel.items():
        button.click(_canceller(workspace, side), pair, training.outputs, **QUIET)


def _starter(workspace: Workspace, sides: Sequence[str], lock: Lock) -> Callable[..., list[Any]]:
    def start(stored: Pair | None, tree: Any) -> list[Any]:
        with lock:
            pair = dict(stored or {}) | submit(read_form(tree), sides, workspace)
        return [pair, *job_updates(pair, workspace)]

    return start


def submit(form: Form, sides: Sequence[str], workspace: Workspace) -> Pair:
    """Submit the jobs of some sides, or find their existing runs; return the job IDs by side.

    Raises:
        gr.Error: a side cannot be trained with the form's values, or the job cannot be submitted.
    """
    runs, errors = runs_of(form, workspace)
    problems = [f"{side}: {errors[side].rstrip('.')}." for side in sides if errors[side]]
    if problems:
        raise gr.Error(" ".join(problems), print_exception=False)
    try:
        for side in sides:
            check_allowed(runs[side], workspace.plugins)
        benches = {side: bench_for(form, runs[side], side, workspace) for side in sides}
        return {side: submit_one(side, bench, workspace) for side, bench in benches.items()}
    except (ValueError, OSError) as error:
        raise gr.Error(str(error), print_exception=False) from error


def _canceller(workspace: Workspace, side: str) -> Callable[..., list[Any]]:
    def cancel(stored: Pair | None) -> list[Any]:
        if stored and side in stored:
            jobs.cancel(workspace.store, stored[side], workspace.plugins)
        return job_updates(stored or {}, workspace)

    return cancel


def job_updates(pair: Pair, workspace: Workspace) -> list[Any]:
    """Return updates of the progress, cancel buttons, timer and finished pair from the files of two jobs."""
    read = {side: jobs.read(workspace.store, pair[side], workspace.plugins) for side in SIDES if side in pair}
    curves = {side: jobs.curves(workspace.store, job.id) for side, job in read.items()}
    logs = {
        side: jobs.log_tail(workspace.store, job.id) for side, job in read.items() if job.state in ("failed", "lost")
    }
    is_active = any(job.state in UNFINISHED for job in read.values())
    buttons = [_cancel_button(side, read.get(side)) for side in SIDES]
    idle = "" if read else workspace.describe_runs()
    progress = [lines_html(read, idle), progress_html(read, curves, logs)]
    return [*progress, *buttons, gr.Timer(active=is_active), encode_pair(ready_of(read))]


def _cancel_button(side: str, job: Job | None) -> Any:
    is_unfinished = job is not None and job.state in UNFINISHED
    label = f"Stop {side} now" if job is not None and job.stopping else f"Cancel {side}"
    return gr.update(visible=is_unfinished, value=label)


def ready_of(read: Mapping[str, Job]) -> Pair | None:
    """Return the job IDs of both sides if both jobs have ended and produced a run, otherwise None."""
    if any(side not in read or read[side].state in UNFINISHED or not read[side].keys for side in SIDES):
        return None
    return {side: read[side].id for side in SIDES}


def attach(stored: Any, parameters: Mapping[str, str], workspace: Workspace) -> list[Any]:
    """Return the pair of jobs to show when a page opens, and the updates that show it.

    Each side shows the job in the address, otherwise the one stored by the browser, otherwise the newest.

    Args:
        stored: value stored by the browser.
        parameters: query parameters of the address; `a` and `b` name jobs.
        workspace: workspace of the page.
    """
    jobs.advance(workspace.store, workspace.plugins)
    existing = set(jobs.jobs(workspace.store))
    kept = stored if isinstance(stored, dict) else {}
    pair = {}
    for side in SIDES:
        candidates = [parameters.get(side.lower()), kept.get(side), jobs.newest(workspace.store, side)]
        chosen = next((job for job in candidates if isinstance(job, str) and job in existing), None)
        if chosen is not None:
            pair[side] = chosen
    return [pair, *job_updates(pair, workspace)]
