"""Computes the run keys of a bench's rows from settings, table and split."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from frostbench.benchmarks.runs.record import BenchRows
from frostbench.benchmarks.runs.streaming import with_labels
from frostbench.benchmarks.runs.view_sets import data_hash
from frostbench.benchmarks.settings.nouns import with_noun
from frostbench.benchmarks.settings.parsing import SettingsError, run_key
from frostbench.benchmarks.settings.plan import BenchSpec, Row, expand
from frostbench.embedcache.splits.making import Split, load_or_make_split, split_path
from frostbench.embedcache.table import FeatureTable, read_table
from frostbench.training.engine.fit import ENGINE_VERSION
from frostbench.training.run import RunSpec

ENSEMBLE_VERSION = 1
"""Part of every ensemble key; increase it when a code change changes the predictions of ensembles."""


def bench_rows(bench: BenchSpec) -> tuple[BenchRows, ...]:
    """Return the run keys of a bench's rows on each of its caches, trained or not.

    If the bench tunes its rows, these are all settings by name; `frostbench.benchmarks.runs.tuning.chosen_rows` returns
    the winners.

    Raises:
        SettingsError: the bench names no cache, or a row is invalid.
        ValueError: a cache is unfinished or damaged, its split is not possible, or options conflict.
    """
    rows, by_cache = rows_of(bench), []
    for cache in bench.caches:
        table = read_table(Path(cache), stored=True)
        split = load_or_make_split(Path(cache), table, bench.split, Path(bench.store))
        table, split = with_labels(table, split, bench)
        by_cache.append(BenchRows(cache, {row.name: tuple(key_of(table, split, s) for s in row.specs) for row in rows}))
    return tuple(by_cache)


def known_keys(bench: BenchSpec, table: FeatureTable) -> dict[int, str]:
    """Return the run keys of a bench with one row and one cache, by seed, or {} if its split does not exist yet.

    No split is made here, since that may take minutes.

    Raises:
        SettingsError: the bench does not have exactly one row and one cache, or the row is invalid.
        ValueError: the cache or its split is damaged, or lacks data that the row reads.
    """
    rows = rows_of(bench)
    if (len(bench.caches), len(rows)) != (1, 1):
        raise SettingsError(
            f"The bench must have one row on one cache, got {with_noun(len(rows), 'row')} on "
            f"{with_noun(len(bench.caches), 'cache')}. Use `bench_rows`."
        )
    keys = _known(bench, rows, table)
    return dict(zip(bench.seeds, keys[rows[0].name], strict=True)) if keys else {}


def known_keys_by_row(bench: BenchSpec, table: FeatureTable) -> dict[str, tuple[str, ...]]:
    """Return the run keys of a bench with one cache, by row, or {} if its split does not exist yet; see `known_keys`.

    Raises:
        SettingsError: the bench does not have exactly one cache, or a row is invalid.
        ValueError: as in `known_keys`.
    """
    rows = rows_of(bench)
    if len(bench.caches) != 1:
        raise SettingsError(f"The bench must have one cache, got {len(bench.caches)}. Use `bench_rows`.")
    return _known(bench, rows, table)


def _known(bench: BenchSpec, rows: Sequence[Row], table: FeatureTable) -> dict[str, tuple[str, ...]]:
    cache = Path(bench.caches[0])
    if not split_path(cache, table, bench.split).is_file():
        return {}
    table, split = with_labels(table, load_or_make_split(cache, table, bench.split), bench)
    return {row.name: tuple(key_of(table, split, spec) for spec in row.specs) for row in rows}


def rows_of(bench: BenchSpec) -> tuple[Row, ...]:
    """Expand a bench into its rows and check that it names a cache.

    Raises:
        SettingsError: the bench names no cache, or a row is invalid.
    """
    if not bench.caches:
        raise SettingsError(
            "A bench needs at least one cache, got none. Write `caches: [FOLDER]`, or add --cache FOLDER."
        )
    return expand(bench)


def key_of(table: FeatureTable, split: Split, spec: RunSpec) -> str:
    """Return the key of a run on a table and a split."""
    return run_key(spec, data_hash(table, spec), split.hash, ENGINE_VERSION)


def ensemble_key(members: Sequence[str]) -> str:
    """Return the key of an ensemble of runs, 16 hex digits, independent of their order.

    >>> ensemble_key(["5d1f", "77c1"]) == ensemble_key(["77c1", "5d1f"])
    True
    """
    parts = {"ensemble": ENSEMBLE_VERSION, "members": sorted(members)}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def ensemble_keys(members: Sequence[str], rows: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the keys of an ensemble of rows, one per seed, from the run keys of each row."""
    return tuple(map(ensemble_key, zip(*(rows[name] for name in members), strict=True)))
