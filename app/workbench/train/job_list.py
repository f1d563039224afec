"""All jobs of the store as JSON values, and the settings that finished ones trained."""

import math
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from frostbench.app import jobs
from frostbench.app.jobs import Job
from frostbench.app.jobs.records import EXPERIMENTS, UNFINISHED
from frostbench.app.workbench.requests import RequestError
from frostbench.app.workbench.runs.marks import read_marks
from frostbench.app.workbench.runs.naming import as_text
from frostbench.app.workbench.runs.run_list import Setting, list_settings, mean_f1
from frostbench.app.workbench.train.progress import progress_text
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.settings.nouns import with_noun
from frostbench.benchmarks.settings.parsing import with_changes
from frostbench.embedcache.labels.spec import LabelSpec
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.heads.titles import label_of
from frostbench.training.run import RunSpec

ENDED = 30
"""Number of ended jobs that the list shows."""
MOST_NAMED = 5
"""Largest number of changes of an experiment that its line names."""
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
        "resumable": job.side in EXPERIMENTS and job.state in ("cancelled", "failed", "lost"),
        "cancellable": job.state in (*UNFINISHED, "foreign"),
        "has_runs": bool(job.keys),
        "warnings": list(job.warnings),
        "chosen": job.chosen,
    } | _settings(job)


def _is_choosing(job: Job) -> bool:
    return job.state == "running" and job.epoch == 0 and job.share is None and bool(job.message)


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
        about = _about(bench, job.rounds)
        return {"preset": str(bench["preset"]), "changes": changes, "cache": str(cache), "seeds": seeds, "about": about}
    except (KeyError, TypeError, AttributeError, ValueError):
        return {"preset": "", "changes": [], "cache": "", "seeds": [], "about": ""}


def _about(bench: Mapping[str, Any], rounds: int) -> str:
    """Return what an experiment tries, in words; "" for a side."""
    if toggles := bench.get("toggles"):
        more = [f"{len(toggles) - MOST_NAMED} more"] if len(toggles) > MOST_NAMED else []
        return f"{with_noun(1 + len(toggles), 'setting')}: {'; '.join(['A', *list(toggles)[:MOST_NAMED], *more])}"
    tune = next(iter(bench.get("tune", {}).values()), None)
    if not tune:
        return ""
    paths = list(tune) if isinstance(tune, Mapping) else list(dict.fromkeys(path for point in tune for path in point))
    settings = math.prod(map(len, tune.values())) if isinstance(tune, Mapping) else len(tune)
    halving = f", halving in {rounds} rounds" if rounds else ""
    return f"{with_noun(settings, 'setting')} of {', '.join(label_of(RunSpec, path) for path in paths)}{halving}"


def log_of(request: Any, workspace: Workspace) -> dict[str, str]:
    """Return the end of a job's log.

    Raises:
        JobError: the store has no such job.
    """
    return {"log": jobs.log_tail(workspace.store, id_in(request))}


def cancel_job(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Cancel a job, and return the list.

    Raises:
        JobError: the store has no such job.
    """
    jobs.cancel(workspace.store, id_in(request), workspace.plugins)
    return job_list(workspace)


def id_in(request: Any) -> str:
    """Return the ID of the job that a request names. Raises RequestError if it names none."""
    job = request.get("job") if isinstance(request, Mapping) else None
    if not isinstance(job, str):
        raise RequestError(f"A request about a job must name it, got {job!r}. Reload the page.")
    return job


def settings_of_jobs(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Return, for jobs that have runs, the ID of their setting in the list of runs, by job.

    For experiments, `runs` is the address of the tab Runs with all of their settings: pinned is A, or the best one.

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
    found, runs = {}, {}
    for name in names:
        job = jobs.read(workspace.store, name)
        own = list({of_key[key].id: of_key[key] for key in job.keys.values() if key in of_key}.values())
        if own and job.side in EXPERIMENTS:
            runs[name] = runs_address(own, is_search=job.side == "search")
        elif own:
            found[name] = {"id": own[0].id, "name": marks.of(own[0].entry).name or own[0].name}
    return {"store": str(workspace.store), "settings": found, "runs": runs}


def runs_address(settings: Sequence[Setting], *, is_search: bool) -> str:
    """Return the address of the tab Runs that shows settings, compared with the first, or with the best of a search."""
    first = max(settings, key=mean_f1) if is_search else settings[0]
    chosen = ".".join(setting.id for setting in settings)
    query = {"data": f"{first.data} {first.store}", "pinned": first.id, "chosen": chosen, "only": "1"}
    return f"/runs?{urlencode(query)}"
