"""Lists all runs of run stores as settings: runs that differ in the seed alone are one line."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from frostbench.app.workbench.runs.naming import Change, as_text, name_of, nearest
from frostbench.benchmarks.comparison.metrics import HIGHER_IS_BETTER
from frostbench.benchmarks.runs.all_runs import read_records
from frostbench.benchmarks.runs.store import StoreError

SPEC, ROLE = "spec.", "select."
OF_THE_DATA = ("cache", "table", "split")
"""Columns that say what a run was trained and evaluated on."""


@dataclass(frozen=True)
class Setting:
    """Runs that differ in their seed alone.

    Attributes:
        id: hash of store, data and settings; it stays the same when seeds are added.
        store: folder of the run store.
        cache: cache as the runs name it.
        data: hash of the table and the split; settings with the same one can be compared.
        name: nearest preset and changes.
        preset: the nearest preset.
        changes: options that differ from the preset.
        seeds: seed of each run.
        keys: run key of each run.
        values: validation metrics by name, one per run; None where a metric is not defined.
        seconds: mean seconds of a run; runs that were trained together share their time.
        members: runs of which it is an ensemble.
    """

    id: str
    store: str
    cache: str
    data: str
    name: str
    preset: str
    changes: tuple[Change, ...]
    seeds: tuple[int, ...]
    keys: tuple[str, ...]
    values: Mapping[str, tuple[float | None, ...]]
    seconds: float
    members: int


def list_settings(stores: Sequence[Path]) -> tuple[tuple[Setting, ...], tuple[str, ...]]:
    """Return the settings of all stores, the best of each store first, and what could not be read."""
    found: list[Setting] = []
    problems: list[str] = []
    for store in stores:
        try:
            frame = read_records(store)
        except (StoreError, OSError) as error:
            problems.append(f"{store}: {error}")
            continue
        if len(frame):
            found += sorted(_settings(store, frame), key=_mean_f1, reverse=True)
    return tuple(found), tuple(problems)


def _settings(store: Path, frame: pd.DataFrame) -> Iterator[Setting]:
    specs = _specs(frame)
    column = {name: frame[name].tolist() for name in ("key", "seed", "seconds", "members", *OF_THE_DATA)}
    metrics = {name: frame[f"{ROLE}{name}"].tolist() for name in HIGHER_IS_BETTER if f"{ROLE}{name}" in frame}
    groups: dict[tuple[str, ...], list[int]] = {}
    for row, spec in enumerate(specs):
        data = tuple(str(column[name][row]) for name in OF_THE_DATA)
        groups.setdefault((*data, json.dumps(spec, sort_keys=True), str(_size(column["members"][row]))), []).append(row)
    shares = _shares(groups)
    for group, unsorted in groups.items():
        rows = sorted(unsorted, key=column["seed"].__getitem__)
        start, changes = nearest(specs[rows[0]])
        cache, *data_hashes = group[:3]
        yield Setting(
            id=_hash(str(store), *group),
            store=str(store),
            cache=cache,
            data=_hash(*data_hashes),
            name=name_of(start, changes, shares[group[1:3]]),
            preset=start,
            changes=changes,
            seeds=tuple(int(column["seed"][row]) for row in rows),
            keys=tuple(column["key"][row] for row in rows),
            values={name: tuple(_number(values[row]) for row in rows) for name, values in metrics.items()},
            seconds=round(sum(column["seconds"][row] for row in rows) / len(rows), 2),
            members=_size(column["members"][rows[0]]),
        )


def _shares(groups: Mapping[tuple[str, ...], Sequence[int]]) -> dict[tuple[str, ...], dict[tuple[str, str], float]]:
    """Return, by table and split, the share of the settings there that have a value, by option and value."""
    counts: dict[tuple[str, ...], Counter[tuple[str, str]]] = {}
    sizes = Counter(group[1:3] for group in groups)
    for group in groups:
        values = ((path, as_text(value)) for path, value in json.loads(group[3]).items())
        counts.setdefault(group[1:3], Counter()).update(values)
    return {data: {pair: count / sizes[data] for pair, count in found.items()} for data, found in counts.items()}


def _size(members: Any) -> int:
    """Return the number of runs of which a run is an ensemble, 0 for a single head."""
    return 0 if _is_missing(members) or not members else len(str(members).split(","))


def _specs(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the settings of each run without the seed, by dotted option."""
    names = [name for name in map(str, frame) if name.startswith(SPEC) and name != f"{SPEC}seed"]
    columns = {name.removeprefix(SPEC): frame[name].tolist() for name in names}
    return [
        {path: column[row] for path, column in columns.items() if not _is_missing(column[row])}
        for row in range(len(frame))
    ]


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _number(value: Any) -> float | None:
    return None if _is_missing(value) else round(float(value), 6)


def _mean_f1(setting: Setting) -> float:
    values = [value for value in setting.values.get("macro_f1_fg", ()) if value is not None]
    return sum(values) / len(values) if values else -1.0


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def as_tree(settings: Sequence[Setting]) -> list[dict[str, Any]]:
    """Return settings as JSON values."""
    return [asdict(setting) | {"changes": [change._asdict() for change in setting.changes]} for setting in settings]
