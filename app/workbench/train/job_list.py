"""All jobs of the store as JSON values, and the settings that finished ones trained."""

from collections.abc import Mapping
from typing import Any

from frostbench.app import jobs
from frostbench.app.jobs import Job
from frostbench.app.jobs.records import UNFINISHED
from frostbench.app.workbench.requests import RequestError
from frostbench.app.workbench.runs.marks import read_marks
from frostbench.app.workbench.runs.naming import as_text
from frostbench.app.workbench.runs.run_list import list_settings
from frostbench.app.workbench.train.progress import progress_text
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.settings.parsing import with_changes
from frostbench.embedcache.labels.spec import LabelSpec
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.heads.titles import label_of
from frostbench.training.run import RunSpec

ENDED = 30
"""Number of ended jobs that the list shows."""
LABELS = {
    "queued": "waiting",
    "running": "training",
    "done": "done",
    "cancelled": "cancelled",
    "failed": "failed",
    "lost": "lost",
    "foreign": "not started here",
}
_SAID = ("failed", "lost", "cancelled", "foreign")
"""States whose message says more than the progress."""


def job_list(workspace: Workspace) -> dict[str, Any]:
    """Return all unfinished jobs of the store and the newest ended ones, newest first, and the number of others."""
    jobs.advance(workspace.store, workspace.plugins)
    listed, omitted = jobs.list_jobs(workspace.store, ended=ENDED, plugins=workspace.plugins)
    return {"jobs": [as_tree(job) for job in listed], "omitted": omitted}


def as_tree(job: Job) -> dict[str, Any]:
    """Return a job as JSON values: all that the list shows of it comes from its own files."""
    return {
        "id": job.id,
        "side": job.side,
        "state": job.state,
        "label": "stopping" if job.stopping else LABELS[job.state],
        "text": job.message if job.state in _SAID or _is_choosing(job) else progress_text(job),
        "share": round(jobs.share_done(job)),
        "left": jobs.eta_seconds(job),
        "created": job.created,
        "began": job.began,
        "ended": job.ended,
        "stopping": job.stopping,
        "cancellable": job.state in (*UNFINISHED, "foreign"),
        "has_runs": bool(job.keys),
        "warnings": list(job.warnings),
        "chosen": job.chosen,
    } | _settings(job)


def _is_choosing(job: Job) -> bool:
    return job.state == "running" and job.epoch == 0 and bool(job.message)


def _settings(job: Job) -> dict[str, Any]:
    """Return what a job trains, in words; a store may hold jobs with any settings."""
    bench = job.bench
    try:
        base, split, seeds = bench.get("base", {}), bench.get("split", {}), [int(seed) for seed in bench["seeds"]]
        tree = with_changes({}, base)
        changes = [
            {"title": label_of(RunSpec, path, tree), "path": path, "value": as_text(base[path])} for path in base
        ]
        changes += [
            {"title": label_of(SplitSpec, name), "path": f"split.{name}", "value": as_text(split[name])}
            for name in split
        ]
        if file := bench.get("labels", {}).get("file"):
            changes.append({"title": label_of(LabelSpec, "file"), "path": "labels.file", "value": str(file)})
        (cache,) = bench["caches"]
        return {"preset": str(bench["preset"]), "changes": changes, "cache": str(cache), "seeds": seeds}
    except (KeyError, TypeError, AttributeError, ValueError):
        return {"preset": "", "changes": [], "cache": "", "seeds": []}


def log_of(request: Any, workspace: Workspace) -> dict[str, str]:
    """Return the end of a job's log.

    Raises:
        JobError: the store has no such job.
    """
    return {"log": jobs.log_tail(workspace.store, _id_in(request))}


def cancel_job(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Cancel a job, and return the list.

    Raises:
        JobError: the store has no such job.
    """
    jobs.cancel(workspace.store, _id_in(request), workspace.plugins)
    return job_list(workspace)


def _id_in(request: Any) -> str:
    job = request.get("job") if isinstance(request, Mapping) else None
    if not isinstance(job, str):
        raise RequestError(f"A request about a job must name it, got {job!r}. Reload the page.")
    return job


def settings_of_jobs(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Return, for jobs that have runs, the ID of their setting in the list of runs, by job.

    Raises:
        RequestError: the request does not name jobs.
        JobError: the store has no such job.
    """
    names = request.get("jobs") if isinstance(request, Mapping) else None
    if not isinstance(names, list) or len(names) > ENDED or not all(isinstance(name, str) for name in names):
        raise RequestError(f"The jobs must be at most {ENDED} IDs, got {names!r}. Reload the page.")
    settings, _ = list_settings([workspace.store])
    marks = read_marks(workspace.store).marks
    of_key = {key: setting for setting in settings for key in setting.keys}
    found = {}
    for name in names:
        keys = jobs.read(workspace.store, name).keys.values()
        setting = next((of_key[key] for key in keys if key in of_key), None)
        if setting is not None:
            found[name] = {"id": setting.id, "name": marks.of(setting.entry).name or setting.name}
    return {"store": str(workspace.store), "settings": found}
