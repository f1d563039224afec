"""What the bar at the top of every tab asks for."""

from typing import Any

from frostbench.app import jobs
from frostbench.app.jobs.records import UNFINISHED
from frostbench.app.workbench.photos.embedding import Embedding
from frostbench.app.workspace import Workspace


def job_summary(workspace: Workspace) -> dict[str, Any]:
    """Return the number of unfinished jobs, the progress of the first one and its time left; and of an embedding."""
    jobs.advance(workspace.store, workspace.plugins)
    listed, _ = jobs.list_jobs(workspace.store, plugins=workspace.plugins)
    unfinished = [job for job in listed if job.state in UNFINISHED]
    running = next((job for job in unfinished if job.state == "running"), None)
    return {
        "unfinished": len(unfinished),
        "share": 0 if running is None else round(jobs.share_done(running)),
        "text": _left(None if running is None else jobs.eta_seconds(running)),
        "embedding": _embedding(workspace),
    }


def _embedding(workspace: Workspace) -> dict[str, Any] | None:
    found = Embedding(workspace).summary()
    return None if found is None else {"share": found["share"], "text": _left(found["seconds_left"], "about")}


def _left(seconds: float | None, how: str = "at most") -> str:
    if seconds is None:
        return ""
    return f"{how} {seconds:.0f} s left" if seconds < 100 else f"{how} {seconds / 60:.0f} min left"
