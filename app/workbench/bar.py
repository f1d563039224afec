"""What the bar at the top of every tab asks for."""

from typing import Any

from frostbench.app import jobs
from frostbench.app.jobs import Job
from frostbench.app.jobs.records import UNFINISHED
from frostbench.app.workspace import Workspace


def job_summary(workspace: Workspace) -> dict[str, Any]:
    """Return the number of unfinished jobs, the progress of the first one, and its time left."""
    jobs.advance(workspace.store, workspace.plugins)
    listed, _ = jobs.list_jobs(workspace.store, plugins=workspace.plugins)
    unfinished = [job for job in listed if job.state in UNFINISHED]
    running = next((job for job in unfinished if job.state == "running"), None)
    return {
        "unfinished": len(unfinished),
        "share": 0 if running is None else round(jobs.share_done(running)),
        "text": _left(running),
    }


def _left(job: Job | None) -> str:
    seconds = None if job is None else jobs.eta_seconds(job)
    if seconds is None:
        return ""
    return f"at most {seconds:.0f} s left" if seconds < 100 else f"at most {seconds / 60:.0f} min left"
