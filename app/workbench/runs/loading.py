"""The address of the tab Train that states the settings of runs, so that they can be changed and trained again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from frostbench.app.finding import keys_of
from frostbench.app.forms import values_of
from frostbench.app.rows import Row
from frostbench.app.sides import ROWS, bench_of, preset_spec
from frostbench.app.workbench.requests import RequestError, store_of
from frostbench.app.workbench.runs.marking import chosen_settings
from frostbench.app.workbench.runs.marks import SIDES
from frostbench.app.workbench.runs.places import page_name
from frostbench.app.workbench.runs.run_list import Setting
from frostbench.app.workbench.train.form import MOST_SEEDS
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.runs.store import read_record
from frostbench.benchmarks.settings.parsing import parse
from frostbench.training.run import RunSpec

OTHER_DATA = (
    "its runs have another split, other labels or an older version of their data than the form: set split and labels "
    "to train the same runs"
)


def load_settings(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Return the address of the tab Train with settings as its sides, and what the address cannot state.

    Args:
        request: `store`, and the ids of settings as `a`, `b` or both; a side that is not given starts from baseline.
        workspace: workspace of the page.

    Raises:
        RequestError: the request has another form, a setting is an ensemble, or its cache is none of the page's.
        ValueError: a record cannot be read, or has options that this version does not know.
    """
    given = [side for side in SIDES if isinstance(request, Mapping) and request.get(side)]
    if not given:
        raise RequestError("Loading settings needs a store and the id of a setting as a or b, as the page sends them.")
    store = store_of(request, workspace)
    parameters: dict[str, str] = {}
    notes = []
    for side in given:
        (setting,) = chosen_settings(store, [request[side]])
        run = run_of(store, setting)
        cache, is_same = _cache_of(setting, run, workspace)
        parameters |= {"b.data" if side == "b" and "a" in given else "data": cache} | parameters_of(side, setting, run)
        if not is_same:
            notes.append(f"{side.upper()}: {OTHER_DATA}.")
    seeds = len(chosen_settings(store, [request[given[-1]]])[0].seeds)
    if seeds <= MOST_SEEDS:
        parameters["seeds"] = str(seeds)
    if parameters.get("b.data") == parameters.get("data"):
        parameters.pop("b.data", None)
    return {"address": f"/train?{urlencode(parameters)}", "notes": notes}


def run_of(store: Path, setting: Setting) -> RunSpec:
    """Return the run of a setting, with all its options.

    Raises:
        RequestError: the setting is an ensemble.
        ValueError: its record cannot be read, or has options that this version does not know.
    """
    if setting.members:
        raise RequestError(
            f"{setting.name!r} is an ensemble, which has no settings of its own. Load one of its members."
        )
    return parse(RunSpec, dict(read_record(store, setting.keys[0]).full_spec))


def parameters_of(side: str, setting: Setting, run: RunSpec) -> dict[str, str]:
    """Return what the address of the tab Train states about a side: a preset, and the options that differ from it."""
    values, start = values_of(ROWS, run), values_of(ROWS, preset_spec(setting.preset))
    changed = [row for row in ROWS if row.is_active(values) and values[row.key] != start[row.key]]
    return {side: setting.preset} | {f"{side}.{row.path}": as_text(row, values[row.key]) for row in changed}


def as_text(row: Row, value: Any) -> str:
    """Return the value of a control as the address states it: names with a comma or a quote are quoted.

    >>> from dataclasses import replace
    >>> as_text(replace(ROWS[0], control="names"), ["oak", "elm, young"])
    'oak, "elm, young"'
    """
    if value is None:
        return ""
    if row.control == "flag":
        return "on" if value else "off"
    if row.control == "names":
        quoted = [f'"{name.replace(chr(34), chr(34) * 2)}"' if {",", '"'} & set(name) else name for name in value]
        return ", ".join(quoted)
    return str(value)


def _cache_of(setting: Setting, run: RunSpec, workspace: Workspace) -> tuple[str, bool]:
    """Return the page's cache of a setting, and whether the form would find the setting's runs with it.

    A cache that is elsewhere now, such as a copy, is known by its content: its runs have the same keys.

    Raises:
        RequestError: the page has no such cache.
    """
    named = page_name(setting.cache, Path(setting.store), workspace)
    others = sorted(workspace.cache_names(), key=lambda name: Path(name).name != Path(setting.cache).name)
    for name in [named] if named else others:
        bench = bench_of(name, run, setting.seeds, setting.store, {}, "loaded")
        if set(keys_of(bench, workspace.plugins).values()) & set(setting.keys):
            return name, True
    if named:
        return named, False
    raise RequestError(
        f"Settings are loaded for a cache of the page, and {setting.cache} of these runs is not below "
        f"{workspace.root.resolve()}. Start the page in a folder above it, or name it: frostbench app CACHE."
    )
