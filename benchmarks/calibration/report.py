"""Measure the calibration of a bench's rows, before and after temperature scaling."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
import pandas as pd

from frostbench.benchmarks.calibration.measured import CalibrationReport as CalibrationReport
from frostbench.benchmarks.calibration.measured import report_of
from frostbench.benchmarks.calibration.runs import EvaluatedRows
from frostbench.benchmarks.comparison.compare import Role, baseline_first
from frostbench.benchmarks.comparison.paired import Paired, load
from frostbench.benchmarks.runs.keys import rows_of
from frostbench.benchmarks.runs.store import require_runs
from frostbench.benchmarks.runs.streaming import columns_for, with_labels
from frostbench.benchmarks.runs.tuning import ChosenRows, chosen_rows
from frostbench.benchmarks.runs.view_sets import with_averaged
from frostbench.benchmarks.settings.parsing import SettingsError, load_yaml, parse
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.splits.making import Split, load_or_make_split
from frostbench.embedcache.table import FeatureTable, read_table

RESAMPLES = 1000


def no_progress(done: int, total: int) -> None:
    """Ignore progress."""


def calibration(
    bench: BenchSpec | Path | str,
    role: Role = "select",
    *,
    baseline: str | None = None,
    others: Path | str | None = None,
    resamples: int | None = None,
    progress: Callable[[int, int], None] = no_progress,
) -> tuple[CalibrationReport, ...]:
    """Measure the calibration of every row of a finished bench; return one report per cache.

    Args:
        bench: the bench, or its YAML file.
        role: role of the rows to evaluate on; use test only once everything else is decided.
        baseline: the row to compare with, or None for the first.
        others: folder of a cache of the same recipe with images of other classes, for OOD detection.
        resamples: number of bootstrap resamples; None means 1000.
        progress: called with the number of finished runs and the total.

    Raises:
        SettingsError: the bench is invalid, or its split is cross-validated.
        StoreError: a run is not in the store, the baseline is not one of the rows, runs cannot be compared, or all of
            them gave NaN.
        ValueError: the cache `others` has another recipe, or shares images with the bench's cache.
    """
    spec = bench if isinstance(bench, BenchSpec) else parse(BenchSpec, load_yaml(Path(bench)))
    parts = chosen_rows(spec)
    total, done = sum(len(part.rows) for part in parts) * len(spec.seeds), count(1)

    def step() -> None:
        progress(next(done), total)

    reports = []
    for part in parts:
        paired, evaluated = _loaded(spec, part, role, baseline, others)
        reports.append(report_of(paired, evaluated, spec.name, resamples or RESAMPLES, part.tuned, step))
    return tuple(reports)


def _loaded(
    spec: BenchSpec, part: ChosenRows, role: Role, baseline: str | None, others: Path | str | None
) -> tuple[Paired, EvaluatedRows]:
    store, cache = Path(spec.store), Path(part.cache)
    require_runs(store, part.rows, part.cache)
    runs = [run for row in rows_of(spec) for run in row.specs]
    table = read_table(cache, columns_for(cache, runs), stored=True)
    table, split = with_labels(table, load_or_make_split(cache, table, spec.split, store), spec)
    _check_split(split)
    table = with_averaged(table, split, runs)
    paired = load(store, baseline_first(part.rows, baseline), role)
    order = pd.Index(table.ids).get_indexer(pd.Index(paired.ids)).astype(np.int64)
    other_table = _read_others(table, others)
    return paired, EvaluatedRows(store, part.cache, table, split, role, order, paired.frame.groups, other_table)


def _check_split(split: Split) -> None:
    if split.folds is not None:
        raise SettingsError(
            "Calibration must be measured on rows that the kept heads have not seen, but this split is "
            "cross-validated, so the heads were fitted to all rows. Use a split with select and calibrate shares; the "
            "run records contain calibration metrics for held-out rows, without intervals."
        )


def _read_others(table: FeatureTable, others: Path | str | None) -> FeatureTable | None:
    if others is None:
        return None
    other_table = read_table(Path(others), stored=True)
    shared = int(np.isin(other_table.content, table.content).sum())
    if shared:
        raise ValueError(
            f"Images for OOD detection must not be in the bench's cache, but {shared} of the {len(other_table.ids)} in "
            f"{others} {'is' if shared == 1 else 'are'}. Name a cache of other images."
        )
    return other_table
