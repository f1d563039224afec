"""What the tab Export asks for."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response

from frostbench.app.workbench.addresses import FILES
from frostbench.app.workbench.background import Background
from frostbench.app.workbench.export.commands import commands
from frostbench.app.workbench.predict.process import PredictionProcess
from frostbench.app.workbench.requests import RequestError, keys_of, store_of
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.decisions.exporting import describe
from frostbench.benchmarks.decisions.kept import kept_decision
from frostbench.benchmarks.runs.record import RunRecord
from frostbench.benchmarks.runs.store import DECISION_FILE, read_record, run_folder

SHOWN = ("macro_f1_fg", "accuracy", "balanced_accuracy", "recall_few", "nll", "ece")
KINDS = ("measured", "refitted", "ensemble")


def answers(workspace: Workspace, process: PredictionProcess, folder: Path) -> dict[str, Callable[[Any], Any]]:
    """Return the functions that answer the tab's requests, by name; files are made in `folder`."""
    background = Background()
    return {
        "card": lambda request: card(request, workspace),
        "bundle": lambda request: bundle(request, workspace, process, background, folder),
        "report": lambda request: report(request, workspace, process, background, folder),
    }


def card(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Return what is known of the runs of a setting: data, metrics on validation images, notes and commands.

    Raises:
        RequestError: the request has another form, or names a store that the page does not show.
        StoreError: a run is missing or damaged.
    """
    store, keys = store_of(request, workspace), keys_of(request.get("keys"))
    records = [read_record(store, key) for key in keys]
    first, data = records[0], records[0].data
    return {
        "classes": list(data.class_names),
        "train_counts": list(data.train_counts),
        "rows": data.rows,
        "groups": data.groups,
        "folds": data.folds,
        "columns": list(data.columns),
        "cache": data.cache,
        "metrics": [_metrics(record) for record in records],
        "per_class": [_per_class(record) for record in records],
        "ece": [_ece(record) for record in records],
        "settings": first.spec,
        "notes": sorted({note for record in records for note in record.notes}),
        "warnings": list(data.warnings),
        "environment": first.environment,
        **_commands(store, records, request.get("here"), workspace),
        "decision": _decision(store, keys[0]),
        "kept": [(run_folder(store, key) / "head").is_dir() for key in keys],
    }


def _metrics(record: RunRecord) -> dict[str, float | None]:
    evaluation = record.evaluations.get("select")
    return {} if evaluation is None else {name: evaluation.metrics.get(name) for name in SHOWN}


def _per_class(record: RunRecord) -> dict[str, list[float]]:
    evaluation = record.evaluations.get("select")
    return (
        {} if evaluation is None else {name: list(evaluation.per_class[name]) for name in ("support", "recall", "f1")}
    )


def _ece(record: RunRecord) -> dict[str, float | None]:
    """Return the calibration error before and after calibration on validation images."""
    evaluation = record.evaluations.get("select")
    found = {} if evaluation is None else evaluation.calibration
    return {when: found[when].get("ece") for when in ("before", "after") if when in found}


def _commands(store: Path, records: list[RunRecord], here: Any, workspace: Workspace) -> dict[str, str]:
    """Return the `commands` that train and export the setting again, or `why_not`."""
    try:
        return {"commands": commands(store, records, workspace.cache(here)), "why_not": ""}
    except ValueError as error:
        return {"commands": "", "why_not": str(error)}


def bundle(
    request: Any, workspace: Workspace, process: PredictionProcess, background: Background, folder: Path
) -> dict[str, Any]:
    """Return the address of a bundle's zip file, or that it is being made.

    Args:
        request: `store`, `keys` (the runs; the first one is the best), `here` (the page's name of their cache, or "")
            and `kind`: measured, refitted, or ensemble.
        workspace: workspace of the page.
        process: process that makes it.
        background: results that are being made.
        folder: folder for the file.

    Raises:
        RequestError: the request has another form, or names something that the page does not show.
        ValueError: the bundle cannot be made.
    """
    store, keys = store_of(request, workspace), keys_of(request.get("keys"))
    kind, here = request.get("kind"), request.get("here")
    if kind not in KINDS:
        raise RequestError(f"A bundle must be one of {KINDS}, got {kind!r}. Reload the page.")
    used = keys if kind == "ensemble" else keys[:1]
    cache = workspace.cache(here).resolve() if here else None
    if cache is None and kind != "measured":
        raise RequestError("The cache of these runs must be below the folder of the page for this. Move it there.")
    place = folder.resolve()
    arguments = (store.resolve(), used, cache, kind == "refitted", place, workspace.device, workspace.plugins)
    stamp = decision_stamp(store, used[0])
    made = background.get(
        ("bundle", stamp, *map(str, arguments)), lambda: process.call("export.making.make_bundle", *arguments)
    )
    return _told(made, f"{kind}-{used[0]}.zip")


def report(
    request: Any, workspace: Workspace, process: PredictionProcess, background: Background, folder: Path
) -> dict[str, Any]:
    """Return the address of the report that compares two settings, or that it is being made.

    Args:
        request: `store`, `a` and `b` (run keys), `name_a` and `name_b`.
        workspace: workspace of the page.
        process: process that makes it.
        background: results that are being made.
        folder: folder for the file.

    Raises:
        RequestError: the request has another form, or names a store that the page does not show.
        StoreError: the runs cannot be compared.
    """
    store, a = store_of(request, workspace), keys_of(request.get("a"))
    b, names = keys_of(request.get("b")), (str(request.get("name_a")), str(request.get("name_b")))
    arguments = (store.resolve(), a, b, names, folder.resolve())
    made = background.get(
        ("report", json.dumps([a, b, names])), lambda: process.call("export.making.make_report", *arguments)
    )
    return _told(made, "report.html")


def decision_stamp(store: Path, key: str) -> int:
    """Return when the decision of a run was kept, in nanoseconds; 0 without one."""
    file = run_folder(store, key) / DECISION_FILE
    return file.stat().st_mtime_ns if file.is_file() else 0


def _decision(store: Path, key: str) -> str:
    """Return the decision kept for a run, in words, or ""."""
    decision = kept_decision(store, key)
    return "" if decision is None else describe(decision)


def _told(made: Path | None, name: str) -> dict[str, Any]:
    return {"state": "computing"} if made is None else {"file": f"{FILES}/{made.name}", "name": name}


def send_file(request: Request, folder: Path) -> Response:
    """Send a file that was made, as a download."""
    name = request.path_params["name"]
    known: Mapping[str, Path] = {path.name: path for path in folder.iterdir()} if folder.is_dir() else {}
    if name not in known or not known[name].is_file() or known[name].is_symlink():
        return PlainTextResponse("This file is no longer kept. Make it again.", 404)
    shown = request.query_params.get("name", name)
    return FileResponse(known[name], filename=Path(shown).name, headers={"cache-control": "no-store"})
