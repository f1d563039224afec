"""Which runs the rows of a bench are: their keys from settings, table and split."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from frostbench.benchmarks.runs.record import BenchRows
from frostbench.benchmarks.runs.view_sets import data_hash
from frostbench.benchmarks.settings.parsing import SettingsError, run_key
from frostbench.benchmarks.settings.plan import BenchSpec, Row, expand
from frostbench.embedcache.splits.making import Split, load_or_make_split, split_path
from frostbench.embedcache.table import FeatureTable, read_table
from frostbench.training.engine.fit import ENGINE_VERSION
from frostbench.training.run import RunSpec

ENSEMBLE_VERSION = 1
"""Part of the key of every ensemble; raised when a change here changes what one says."""


def bench_rows(bench: BenchSpec) -> tuple[BenchRows, ...]:
    """Which runs are the rows of a bench on each of its caches, as file and caches are now; trained or not.

    Of a bench that tunes its rows, these are all settings by name; `frostbench.benchmarks.runs.tuning.chosen_rows` has
    the winners.

    Raises:
        SettingsError: the bench names no cache, or one of its rows is not possible.
        ValueError: a cache is unfinished or damaged, its split is not possible, or options do not go together.
    """
    rows, found = rows_of(bench), []
    for cache in bench.caches:
        table = read_table(Path(cache), stored=True)
        split = load_or_make_split(Path(cache), table, bench.split, Path(bench.store))
        found.append(BenchRows(cache, {row.name: tuple(key_of(table, split, s) for s in row.specs) for row in rows}))
    return tuple(found)


def known_keys(bench: BenchSpec, table: FeatureTable) -> dict[int, str]:
    """The keys of the one row of a bench by seed, on the table of its one cache, if its split was made before.

    No split is made here, which may take minutes; without one there are no keys.

    Raises:
        SettingsError: the bench has not exactly one row and one cache, or the row is not possible.
        ValueError: the cache or its split is damaged, or lacks what the row reads.
    """
    rows = rows_of(bench)
    if (len(bench.caches), len(rows)) != (1, 1):
        raise SettingsError(
            f"the keys of one row are told at a time, however: {len(rows)} rows on {len(bench.caches)} caches came. "
            "Use `bench_rows`."
        )
    cache = Path(bench.caches[0])
    if not split_path(cache, table, bench.split).is_file():
        return {}
    split = load_or_make_split(cache, table, bench.split)
    return {spec.seed: key_of(table, split, spec) for spec in rows[0].specs}


def rows_of(bench: BenchSpec) -> tuple[Row, ...]:
    """The rows of a bench that names a cache.

    Raises:
        SettingsError: it names none, or one of its rows is not possible.
    """
    if not bench.caches:
        raise SettingsError("a bench needs caches, however: none came. Write `caches: [FOLDER]`.")
    return expand(bench)


def key_of(table: FeatureTable, split: Split, spec: RunSpec) -> str:
    """The key of a run on a table and a split."""
    return run_key(spec, data_hash(table, spec), split.hash, ENGINE_VERSION)


def ensemble_key(members: Sequence[str]) -> str:
    """The name of an ensemble of runs, 16 hex digits, whatever their order.

    >>> ensemble_key(["5d1f", "77c1"]) == ensemble_key(["77c1", "5d1f"])
    True
    """
    parts = {"ensemble": ENSEMBLE_VERSION, "members": sorted(members)}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def ensemble_keys(members: Sequence[str], rows: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The keys of an ensemble of rows, one per seed, from the keys of each row."""
    return tuple(map(ensemble_key, zip(*(rows[name] for name in members), strict=True)))
