"""What the tab Runs asks for."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from frostbench.app.workbench.background import Background
from frostbench.app.workbench.requests import RequestError, store_of
from frostbench.app.workbench.runs.deleting import delete, empty_trash, restore, trash
from frostbench.app.workbench.runs.export import as_csv
from frostbench.app.workbench.runs.loading import load_settings
from frostbench.app.workbench.runs.marking import mark, pin, pins_of
from frostbench.app.workbench.runs.marks import as_tree as marks_as_tree
from frostbench.app.workbench.runs.marks import read_marks
from frostbench.app.workbench.runs.next_steps.proposing import next_steps
from frostbench.app.workbench.runs.places import name_in, names_by_path
from frostbench.app.workbench.runs.run_list import as_tree, list_settings
from frostbench.app.workspace import Workspace

MOST_ROWS = 50
"""Largest number of settings to compare at once."""


def answers(workspace: Workspace, background: Background) -> dict[str, Callable[[Any], Any]]:
    """Return the functions that answer the tab's requests, by name."""
    return {
        "runs": lambda _: run_list(workspace),
        "differences": lambda request: differences(request, workspace),
        "runs-mark": lambda request: mark(request, workspace),
        "runs-pin": lambda request: pin(request, workspace),
        "runs-delete": lambda request: delete(request, workspace),
        "runs-restore": lambda request: restore(request, workspace),
        "runs-empty": lambda request: empty_trash(request, workspace),
        "runs-csv": lambda request: as_csv(request, workspace),
        "runs-load": lambda request: load_settings(request, workspace),
        "next-steps": lambda request: next_steps(request, workspace, background),
        "runs-trash": lambda _: trash(workspace),
    }


def run_list(workspace: Workspace) -> dict[str, Any]:
    """Return the settings of all stores below the folder, with the names, tags, stars, notes and pins of their stores.

    `here` is the page's name of a setting's cache, or "". `name` is the given name, or else the description by options,
    which is also in `described`.
    """
    stores = [workspace.store, *workspace.other_stores()]
    settings, problems = list_settings([store for store in stores if (store / "runs").is_dir()])
    names = names_by_path(workspace)
    places = {(setting.cache, setting.store) for setting in settings}
    here = {place: name_in(place[0], Path(place[1]), names) for place in places}
    tree = as_tree(settings)
    found = {str(store): read_marks(store) for store in stores}
    for setting in tree:
        mark = found[setting["store"]].marks.of(setting["entry"])
        setting |= marks_as_tree(mark)
        setting |= {"here": here[setting["cache"], setting["store"]], "described": setting["name"]}
        setting["name"] = mark.name or setting["name"]
    by_store = {store: [setting for setting in settings if setting.store == store] for store in found}
    return {
        "settings": tree,
        "problems": [*problems, *(one.problem for one in found.values() if one.problem)],
        "stores": [str(store) for store in stores],
        "pins": {store: pins_of(one.marks, by_store[store]) for store, one in found.items() if one.marks.pins},
    }


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
    return store_of(request, workspace), rows


def _is_keys(keys: Any) -> bool:
    return isinstance(keys, list) and bool(keys) and all(isinstance(key, str) for key in keys)


def _number(value: Any) -> float | None:
    return None if value is None or value != value else float(value)
