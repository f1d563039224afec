"""Requests that delete runs in two steps: to the trash of their store, and from there for good."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from frostbench.app import jobs
from frostbench.app.finding import keys_of
from frostbench.app.jobs import Job
from frostbench.app.jobs.files import folder_of, read_request
from frostbench.app.jobs.records import UNFINISHED
from frostbench.app.workbench.requests import RequestError, store_of
from frostbench.app.workbench.runs.marking import chosen_settings
from frostbench.app.workbench.runs.run_list import Setting
from frostbench.app.workbench.runs.stored import stored_runs
from frostbench.app.workbench.runs.trash import TrashError, batches_of, empty, move, put_back
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.runs.claims import Claims


def delete(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Move all runs of settings to the trash; return the ID of the batch and the number of runs.

    Args:
        request: `store` and `ids` of its settings.
        workspace: workspace of the page.

    Raises:
        RequestError: the request has another form, or names a setting that the store does not have.
        TrashError: a run is in use, or cannot be moved.
    """
    store, chosen = _store(request, workspace), request.get("ids") if isinstance(request, Mapping) else None
    settings = chosen_settings(store, chosen)
    keys = [key for setting in settings for key in setting.keys]
    _check_ensembles(store, keys)
    try:
        with Claims(store) as claims:
            held = sorted(set(keys) - set(claims.take(keys)))
            if held:
                raise TrashError(
                    f"Runs that are being trained cannot be deleted, and {' and '.join(claims.holders(held))} has "
                    f"claimed {held[0]}. Wait until it ends, or stop it."
                )
            _check_jobs(store, settings)
            return {"batch": move(store, keys), "runs": len(keys)}
    except OSError as error:
        raise TrashError(
            f"Deleting runs writes to {store}, which cannot be written ({error.strerror}). Change its permissions."
        ) from error


def restore(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Put a batch back; return the number of runs, and the keys of runs that the store has again meanwhile.

    Raises:
        RequestError: the request has another form.
        TrashError: there is no such batch, or it cannot be put back.
    """
    moved, taken = put_back(_store(request, workspace), _batches([request.get("batch")])[0])
    return {"runs": moved, "taken": taken}


def empty_trash(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Delete the runs of batches for good; return their number, and why others were left.

    Raises:
        RequestError: the request has another form.
        TrashError: there is no such batch, or a file cannot be deleted.
    """
    deleted, left = empty(_store(request, workspace), _batches(request.get("batches")))
    return {"runs": deleted, "left": left}


def trash(workspace: Workspace) -> dict[str, Any]:
    """Return the batches in the trash of each store, the newest first."""
    found = {store: batches_of(store) for store in (workspace.store, *workspace.other_stores())}
    return {
        "stores": [
            {
                "store": str(store),
                "batches": [vars(batch) | {"keys": list(batch.keys)} for batch in batches],
            }
            for store, batches in found.items()
            if batches
        ]
    }


def _store(request: Any, workspace: Workspace) -> Path:
    if not isinstance(request, Mapping):
        raise RequestError("A request about deleted runs names a store, as the page does.")
    return store_of(request, workspace)


def _batches(names: Any) -> Sequence[str]:
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise RequestError("A request about the trash names its batches, as the page does.")
    return names


def _check_ensembles(store: Path, keys: Sequence[str]) -> None:
    """Check that no ensemble loses its members."""
    runs, _ = stored_runs(store).read()
    going = set(keys)
    for run in runs:
        if run.key not in going and (lost := going.intersection(run.members)):
            raise TrashError(
                f"An ensemble needs its members, and {run.key} is an ensemble of {min(lost)}. Delete the ensemble too."
            )


def _check_jobs(store: Path, settings: Sequence[Setting]) -> None:
    """Check that no unfinished job trains, found or waits for one of the runs."""
    for job in (one for one in jobs.list_jobs(store, ended=0)[0] if one.state in UNFINISHED):
        needed = _keys_of_job(store, job)
        for setting in settings:
            if needed & set(setting.keys) if needed is not None else _has_cache(job, setting):
                raise TrashError(
                    f"Runs that an unfinished job needs cannot be deleted, and job {job.id} (side {job.side}, "
                    f"{job.state}) needs runs of {setting.name!r}. Wait until it ends, or cancel it."
                )


def _keys_of_job(store: Path, job: Job) -> set[str] | None:
    """Return the keys of a job's runs; None if they are not known yet, as while auto chooses the settings."""
    requested = read_request(folder_of(store, job.id)).keys or keys_of(job.bench)
    return {*requested.values(), *job.keys.values()} if requested else None


def _has_cache(job: Job, setting: Setting) -> bool:
    """Return whether a setting may be trained on a job's cache: paths may be relative to different folders."""
    caches = job.bench.get("caches", ())
    return any(Path(str(cache)).resolve().name == Path(setting.cache).resolve().name for cache in caches)
