"""How well the probabilities of a bench's rows are calibrated, before and after temperature scaling."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from frostbench.benchmarks.calibration.measured import CalibrationReport as CalibrationReport
from frostbench.benchmarks.calibration.measured import report_of
from frostbench.benchmarks.calibration.runs import Place
from frostbench.benchmarks.comparison.compare import Role, ordered
from frostbench.benchmarks.comparison.paired import load
from frostbench.benchmarks.runs.keys import rows_of
from frostbench.benchmarks.runs.store import require_runs
from frostbench.benchmarks.runs.streaming import columns_for
from frostbench.benchmarks.runs.tuning import ChosenRows, chosen_rows
from frostbench.benchmarks.runs.view_sets import with_averaged
from frostbench.benchmarks.settings.parsing import SettingsError, load_yaml, parse
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.splits.making import Split, load_or_make_split
from frostbench.embedcache.table import FeatureTable, read_table

RESAMPLES = 1000


@dataclass(frozen=True)
class _Options:
    """What was asked for beside the bench."""

    role: Role
    baseline: str | None
    others: Path | str | None
    resamples: int | None


@dataclass
class _Counter:
    """Counts runs over all caches, and tells how many are done."""

    total: int
    told: Callable[[int, int], None]
    done: int = 0

    def count(self) -> None:
        self.done += 1
        self.told(self.done, self.total)


def untold(done: int, total: int) -> None:
    """Tell nobody how far it is."""


def calibration(
    bench: BenchSpec | Path | str,
    role: Role = "select",
    *,
    baseline: str | None = None,
    others: Path | str | None = None,
    resamples: int | None = None,
    told: Callable[[int, int], None] = untold,
) -> tuple[CalibrationReport, ...]:
    """The calibration of every row of a bench that was run, one report for each of its caches.

    Args:
        bench: the bench, or its YAML file.
        role: whose rows are judged; test only when everything else is decided.
        baseline: the row to compare with; None means the first.
        others: folder of a cache of the same recipe with images of none of the classes, to be told apart.
        resamples: how many; None takes 1000.
        told: called with how many runs are done, and of how many.

    Raises:
        SettingsError: the bench is not possible, or its split is cross-validated.
        StoreError: a run is not in the store, the baseline is none of the rows, runs cannot be compared, or all of them
            gave NaN.
        ValueError: the others are of another recipe, or some of them are images of the bench's cache.
    """
    spec = bench if isinstance(bench, BenchSpec) else parse(BenchSpec, load_yaml(Path(bench)))
    parts = chosen_rows(spec)
    counter = _Counter(sum(len(part.rows) for part in parts) * len(spec.seeds), told)
    options = _Options(role, baseline, others, resamples)
    return tuple(_on_cache(spec, part, options, counter) for part in parts)


def _on_cache(spec: BenchSpec, part: ChosenRows, options: _Options, counter: _Counter) -> CalibrationReport:
    store, cache = Path(spec.store), Path(part.cache)
    require_runs(store, part.rows, part.cache)
    runs = [run for row in rows_of(spec) for run in row.specs]
    table = read_table(cache, columns_for(cache, runs), stored=True)
    split = load_or_make_split(cache, table, spec.split, store)
    _check_split(split)
    table = with_averaged(table, split, runs)
    paired = load(store, ordered(part.rows, options.baseline), options.role)
    order = pd.Index(table.ids).get_indexer(pd.Index(paired.ids)).astype(np.int64)
    others = _told_apart(table, options.others)
    place = Place(store, part.cache, table, split, options.role, order, paired.frame.groups, others)
    resamples = options.resamples or RESAMPLES
    return report_of(paired, place, spec.name, resamples, part.tuned, counter.count)


def _check_split(split: Split) -> None:
    if split.folds is not None:
        raise SettingsError(
            "calibration is measured by kept heads on rows that they have not seen, however: this split is "
            "cross-validated, and its heads were fitted to all rows. Use a split with select and calibrate shares; "
            "records have these metrics for held-out rows, without intervals."
        )


def _told_apart(table: FeatureTable, others: Path | str | None) -> FeatureTable | None:
    """The table of the rows that are to be told apart."""
    if others is None:
        return None
    found = read_table(Path(others), stored=True)
    shared = int(np.isin(found.content, table.content).sum())
    if shared:
        raise ValueError(
            f"images to be told apart are none of the bench's cache, however: {shared} of the {len(found.ids)} in "
            f"{others} are. Name a cache of other images."
        )
    return found
