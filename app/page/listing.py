"""The list of all jobs of the store with their progress and a button to cancel each."""

from html import escape
from importlib import resources
from typing import Any

import gradio as gr

from frostbench.app import jobs
from frostbench.app.jobs import Job, JobError
from frostbench.app.jobs.records import UNFINISHED
from frostbench.app.page.job_text import describe_bench, format_time
from frostbench.app.page.pieces import MARKS, side_html
from frostbench.app.page.progress import STATE_LABELS, progress_text
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.settings.nouns import with_noun


def build_list(workspace: Workspace) -> None:
    """Lay out the list, which its script refreshes every few seconds in every visible tab."""

    def all_jobs(request: Any) -> dict[str, Any]:
        return list_response(request, workspace)

    script = (resources.files("frostbench.app.page") / "jobs.js").read_text("utf-8")
    shell = (
        '<details class="fp fp-group fp-alljobs" data-testid="all-jobs" data-n="0" open><summary>All jobs of this store'
        '<span class="fp-count"></span></summary><div class="fp-list"></div></details>'
    )
    gr.HTML(shell, js_on_load=script, server_functions=[all_jobs], apply_default_css=False, elem_id="all-jobs")


def list_response(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Cancel the job named under `cancel` in the request, if any; return the list as HTML and the unfinished count."""
    error = ""
    cancelled = request.get("cancel") if isinstance(request, dict) else None
    try:
        if isinstance(cancelled, str):
            jobs.cancel(workspace.store, cancelled, workspace.plugins)
        jobs.advance(workspace.store, workspace.plugins)
    except (JobError, OSError) as problem:
        error = str(problem)
    listed, omitted = jobs.list_jobs(workspace.store, plugins=workspace.plugins)
    return {"html": list_html(listed, omitted, error), "unfinished": sum(job.state in UNFINISHED for job in listed)}


def list_html(listed: list[Job], omitted: int, error: str = "") -> str:
    """Return the jobs as HTML, newest first."""
    rows = "".join(map(_row, listed))
    alert = f'<p class="fp-error" role="alert">{escape(error)}</p>' if error else ""
    if not rows:
        return f"{alert}<p>No jobs yet.</p>"
    rest = f"<p>{with_noun(omitted, 'older finished job')} not shown.</p>" if omitted else ""
    return f"{alert}<ul>{rows}</ul>{rest}"


def _row(job: Job) -> str:
    label = "Stop now" if job.stopping else "Cancel"
    attributes = f'data-cancel="{escape(job.id)}" aria-label="{label}: job {escape(job.id)}"'
    is_cancellable = job.state in (*UNFINISHED, "foreign")
    button = f'<button type="button" {attributes}>{label}</button>' if is_cancellable else ""
    side = side_html(job.side) if job.side in MARKS else "<b>?</b>"
    text = job.message if job.state in ("failed", "lost", "cancelled", "foreign") else progress_text(job)
    state = "■ stopping" if job.stopping else STATE_LABELS[job.state]
    return (
        f'<li data-testid="listed" data-run="{escape(job.id)}" data-state="{job.state}">{side}<span><b>{state}</b> '
        f"{escape(text)}<small>{escape(describe_bench(job.bench))} · {format_time(job)}</small></span>{button}</li>"
    )
