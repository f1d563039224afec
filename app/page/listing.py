"""All jobs of the store, whoever started them and in whichever tab: what each trains, how far it is, and its Cancel."""

from html import escape
from importlib import resources
from typing import Any

import gradio as gr

from frostbench.app import jobs
from frostbench.app.jobs import Job, JobError
from frostbench.app.page.job_text import describe_bench, when
from frostbench.app.page.pieces import MARKS
from frostbench.app.page.progress import WORDS, where
from frostbench.app.workspace import Workspace

AT_WORK = ("queued", "running")


def build_list(workspace: Workspace) -> None:
    """Lay out the list; its script asks for it every few seconds, in every tab that is looked at."""

    def all_jobs(asked: Any) -> dict[str, Any]:
        return answer(asked, workspace)

    script = (resources.files("frostbench.app.page") / "jobs.js").read_text("utf-8")
    shell = (
        '<details class="fp fp-group fp-alljobs" data-testid="all-jobs" data-n="0" open><summary>All jobs of this store'
        '<span class="fp-count"></span></summary><div class="fp-list"></div></details>'
    )
    gr.HTML(shell, js_on_load=script, server_functions=[all_jobs], apply_default_css=False, elem_id="all-jobs")


def answer(asked: Any, workspace: Workspace) -> dict[str, Any]:
    """The list as HTML, and how many jobs have not ended; a job that `asked` names under cancel is cancelled before."""
    error = ""
    cancelled = asked.get("cancel") if isinstance(asked, dict) else None
    try:
        if isinstance(cancelled, str):
            jobs.cancel(workspace.store, cancelled, workspace.plugins)
        jobs.advance(workspace.store, workspace.plugins)
    except (JobError, OSError) as problem:
        error = str(problem)
    found, more = jobs.listed(workspace.store, plugins=workspace.plugins)
    return {"html": list_html(found, more, error), "unfinished": sum(job.state in AT_WORK for job in found)}


def list_html(found: list[Job], more: int, error: str = "") -> str:
    """The jobs, newest first."""
    rows = "".join(map(_row, found))
    told = f'<p class="fp-error" role="alert">{escape(error)}</p>' if error else ""
    if not rows:
        return f"{told}<p>No jobs yet.</p>"
    rest = f"<p>{more} older {'one has' if more == 1 else 'ones have'} ended.</p>" if more else ""
    return f"{told}<ul>{rows}</ul>{rest}"


def _row(job: Job) -> str:
    unended = job.state in (*AT_WORK, "foreign")
    words = "Stop now" if job.stopping else "Cancel"
    known = f'data-cancel="{escape(job.id)}" aria-label="{words}: job {escape(job.id)}"'
    button = f'<button type="button" {known}>{words}</button>' if unended else ""
    side = (
        f'<b class="fp-side fp-{job.side}"><span aria-hidden="true">{MARKS[job.side]}</span> {job.side}</b>'
        if job.side in MARKS
        else "<b>?</b>"
    )
    said = job.message if job.stopping or job.state in ("failed", "lost", "cancelled", "foreign") else where(job)
    state = "■ stopping" if job.stopping else WORDS[job.state]
    return (
        f'<li data-testid="listed" data-run="{escape(job.id)}" data-state="{job.state}">{side}<span><b>{state}</b> '
        f"{escape(said)}<small>{escape(describe_bench(job.bench))} · {when(job)}</small></span>{button}</li>"
    )
