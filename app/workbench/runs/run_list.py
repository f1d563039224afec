"""Lists all runs of run stores as settings: runs that differ in the seed alone are one line."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from frostbench.app.workbench.runs.naming import Change, as_text, name_of, nearest
from frostbench.app.workbench.runs.stored import StoredRun, stored_runs

MOST_PROBLEMS = 5
"""Largest number of unreadable records of a store that are described; further ones are counted."""


@dataclass(frozen=True)
class Setting:
    """Runs that differ in their seed alone.

    Attributes:
        id: hash of store, data and settings; it stays the same when seeds are added.
        entry: the same hash without the store, under which the store's file of names knows the setting.
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
    entry: str
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
    """Return the settings of all stores, the best of each store first, and what could not be read.

    Records that cannot be read are left out and named; the others of their store are listed.
    """
    found: list[Setting] = []
    problems: list[str] = []
    for store in stores:
        try:
            settings, unreadable = _listing(store).read()
        except OSError as error:
            problems.append(f"{store}: {error}")
            continue
        found += settings
        problems += _described(store, unreadable)
    return tuple(found), tuple(problems)


class _Listing:
    """The settings of one store, made again only when a record is added, changed or removed."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._lock = Lock()
        self._runs: Sequence[StoredRun] | None = None
        self._settings: tuple[Setting, ...] = ()

    def read(self) -> tuple[tuple[Setting, ...], Mapping[str, str]]:
        with self._lock:
            runs, problems = stored_runs(self._store).read()
            if runs is not self._runs:
                self._settings = tuple(sorted(_settings(self._store, runs), key=mean_f1, reverse=True))
                self._runs = runs
            return self._settings, problems


@cache
def _listing(store: Path) -> _Listing:
    return _Listing(store)


def _described(store: Path, unreadable: Mapping[str, str]) -> list[str]:
    """Describe records that cannot be read, each with its path and what to do."""
    first = sorted(unreadable.items())[:MOST_PROBLEMS]
    shown = [reason if str(store) in reason else f"{store / 'runs' / name}: {reason}" for name, reason in first]
    more = len(unreadable) - len(shown)
    return [*shown, f"{store}: {more:,} more records cannot be read."] if more else shown


def _settings(store: Path, runs: Sequence[StoredRun]) -> Iterator[Setting]:
    groups: dict[tuple[str, ...], list[StoredRun]] = {}
    for run in runs:
        settings = json.dumps(run.spec, sort_keys=True)
        groups.setdefault((run.cache, run.table, run.split, settings, str(len(run.members))), []).append(run)
    shares = _shares(groups)
    for group, unsorted in groups.items():
        same = sorted(unsorted, key=lambda run: run.seed)
        start, changes = nearest(same[0].spec)
        cache_name, *data_hashes = group[:3]
        yield Setting(
            id=_hash(str(store), *group),
            entry=_hash(*group),
            store=str(store),
            cache=cache_name,
            data=_hash(*data_hashes),
            name=name_of(start, changes, shares[group[1:3]]),
            preset=start,
            changes=changes,
            seeds=tuple(run.seed for run in same),
            keys=tuple(run.key for run in same),
            values={name: tuple([run.values.get(name) for run in same]) for name in same[0].values},
            seconds=round(sum(run.seconds for run in same) / len(same), 2),
            members=len(same[0].members),
        )


def _shares(
    groups: Mapping[tuple[str, ...], Sequence[StoredRun]],
) -> dict[tuple[str, ...], dict[tuple[str, str], float]]:
    """Return, by table and split, the share of the settings there that have a value, by option and value."""
    counts: dict[tuple[str, ...], Counter[tuple[str, str]]] = {}
    sizes = Counter(group[1:3] for group in groups)
    for group, runs in groups.items():
        values = ((path, as_text(value)) for path, value in runs[0].spec.items())
        counts.setdefault(group[1:3], Counter()).update(values)
    return {data: {pair: count / sizes[data] for pair, count in found.items()} for data, found in counts.items()}


def mean_f1(setting: Setting) -> float:
    """Return the mean validation macro F1 over the runs of a setting, or -1 if it is not known."""
    values = [value for value in setting.values.get("macro_f1_fg", ()) if value is not None]
    return sum(values) / len(values) if values else -1.0


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def as_tree(settings: Sequence[Setting]) -> list[dict[str, Any]]:
    """Return settings as JSON values."""
    return [vars(setting) | {"changes": [change._asdict() for change in setting.changes]} for setting in settings]
