"""The JSON that the pages of the workbench ask for."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from frostbench.app import jobs
from frostbench.app.jobs import Job
from frostbench.app.jobs.records import UNFINISHED
from frostbench.app.workbench.run_list import as_tree, list_settings
from frostbench.app.workspace import Workspace

MOST_ROWS = 50
"""Largest number of settings to compare at once."""


class RequestError(ValueError):
    """A request that the page would not send."""


def run_list(workspace: Workspace) -> dict[str, Any]:
    """Return the settings of all stores below the workspace's folder."""
    stores = [workspace.store, *workspace.other_stores()]
    settings, problems = list_settings([store for store in stores if (store / "runs").is_dir()])
    return {"settings": as_tree(settings), "problems": list(problems), "stores": [str(store) for store in stores]}


def differences(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Compare settings of a store with a base on validation images.

    Args:
        request: `store`, `base` (run keys by seed) and `rows` (run keys by id).
        workspace: workspace of the page.

    Raises:
        RequestError: the request has another form, or names a store that the page does not show.
        StoreError: the runs cannot be compared.
    """
    from frostbench.benchmarks.comparison.compare import compare

    store, rows = _checked(request, workspace)
    found = compare(store, rows, "", "select")
    lines: dict[str, dict[str, Any]] = {name: {} for name in rows}
    for line in found.table.to_dict("records"):
        if line["row"]:
            numbers = {key: _number(line[key]) for key in ("delta", "low", "high")}
            lines[str(line["row"])][str(line["metric"])] = numbers | {"verdict": line["verdict"]}
    return {"lines": lines, "images": found.n_rows, "groups": found.n_groups, "seeds": list(found.seeds)}


def _checked(request: Any, workspace: Workspace) -> tuple[Path, dict[str, Sequence[str]]]:
    wanted = "A comparison needs store, base and rows, as the page sends them."
    if not isinstance(request, Mapping) or not isinstance(request.get("rows"), Mapping):
        raise RequestError(wanted)
    rows = {"": request.get("base"), **request["rows"]}
    if len(rows) > MOST_ROWS + 1 or not all(_is_keys(keys) for keys in rows.values()):
        raise RequestError(wanted)
    stores = {str(store): store for store in (workspace.store, *workspace.other_stores())}
    if request.get("store") not in stores:
        raise RequestError(f"The store must be one of {list(stores)}, got {request.get('store')!r}. Reload the page.")
    return stores[request["store"]], rows


def _is_keys(keys: Any) -> bool:
    return isinstance(keys, list) and bool(keys) and all(isinstance(key, str) for key in keys)


def _number(value: Any) -> float | None:
    return None if value is None or value != value else float(value)


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
