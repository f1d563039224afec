"""The runs of a store as the list needs them, kept in memory and read again only where a record has changed."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import pyarrow as pa

from frostbench.benchmarks.comparison.metrics import HIGHER_IS_BETTER
from frostbench.benchmarks.runs.all_runs import readable_records, record_stamps

SPEC, ROLE = "spec.", "select."
SEED = f"{SPEC}seed"
Stamp = tuple[int, int]
"""Modification time (ns since 1970) and size in bytes of a record."""


class StoredRun(NamedTuple):
    """A finished run.

    Attributes:
        key: run key.
        seed: its seed.
        seconds: time of training.
        members: keys of the runs of which it is an ensemble.
        cache: cache as the run names it.
        table: content hash of the table.
        split: hash of the split.
        spec: settings that differ from the defaults, without the seed, by dotted option.
        values: validation metrics by name; None where a metric is not defined.
    """

    key: str
    seed: int
    seconds: float
    members: tuple[str, ...]
    cache: str
    table: str
    split: str
    spec: Mapping[str, Any]
    values: Mapping[str, float | None]


class StoredRuns:
    """The runs of one store."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._lock = Lock()
        self._stamps: Mapping[str, Stamp] = {}
        self._runs: dict[str, StoredRun] = {}
        self._problems: dict[str, str] = {}
        self._sorted: Sequence[StoredRun] = ()

    def read(self) -> tuple[Sequence[StoredRun], Mapping[str, str]]:
        """Return the runs by key, and what is wrong with records that cannot be read, by name of their folder.

        The same objects are returned until a record is added, changed or removed.
        """
        with self._lock:
            stamps = record_stamps(self._store)
            if stamps != self._stamps:
                self._update(stamps)
            return self._sorted, self._problems

    def _update(self, stamps: Mapping[str, Stamp]) -> None:
        changed = [key for key, stamp in stamps.items() if self._stamps.get(key) != stamp]
        table, problems = readable_records(self._store, stamps, changed)
        kept = {key: run for key, run in self._runs.items() if key in stamps and key not in changed}
        self._runs = kept | {run.key: run for run in runs_of(table)}
        self._problems = {key: text for key, text in self._problems.items() if key in stamps} | problems
        for key in self._runs:
            self._problems.pop(key, None)
        self._sorted = tuple(self._runs[key] for key in sorted(self._runs))
        self._stamps = stamps


@cache
def stored_runs(store: Path) -> StoredRuns:
    """Return the runs of a store, the same object for the same path."""
    return StoredRuns(store)


def runs_of(table: pa.Table) -> list[StoredRun]:
    """Return the runs of flat rows, whose settings are JSON text."""
    if not len(table):
        return []
    columns = {
        name: table[name].to_pylist() for name in ("key", "seed", "seconds", "members", "cache", "table", "split")
    }
    specs = _specs(table)
    metrics = {
        name: _values(table, f"{ROLE}{name}") for name in HIGHER_IS_BETTER if f"{ROLE}{name}" in table.column_names
    }
    found = []
    for row, spec in enumerate(specs):
        key, seed, seconds, members, cache_name, table_hash, split = (column[row] for column in columns.values())
        values = {name: column[row] for name, column in metrics.items()}
        names = tuple(members.split(",")) if members else ()
        found.append(StoredRun(key, int(seed), seconds, names, cache_name, table_hash, split, spec, values))
    return found


def _specs(table: pa.Table) -> list[dict[str, Any]]:
    """Return the settings of each row without the seed, by dotted option; equal values are parsed once."""
    found: list[dict[str, Any]] = [{} for _ in range(len(table))]
    for name in (name for name in table.column_names if name.startswith(SPEC) and name != SEED):
        path, parsed = name.removeprefix(SPEC), cache(json.loads)
        for row, text in enumerate(table[name].to_pylist()):
            if text is not None and (value := parsed(text)) is not None:
                found[row][path] = value
    return found


def _values(table: pa.Table, name: str) -> list[float | None]:
    return [None if value is None or value != value else round(float(value), 6) for value in table[name].to_pylist()]
