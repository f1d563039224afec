"""The runs of a bench on one cache, measured: their calibration with intervals and verdicts.

Calibration errors are sizes of gaps, so noise alone makes them larger, and a resample adds noise to that of the rows:
percentile intervals lie too high, often above the figure itself. So the interval of a figure is Hall's basic one, which
mirrors the resamples at the figure. In a difference of two rows most of that cancels, and its interval is the one
of every comparison (`frostbench.benchmarks.comparison.significance`). docs/calibration_metrics.md says how often such
intervals held the truth in simulations.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from frostbench.benchmarks.calibration.classes import ClassCalibration, Confident, class_calibration
from frostbench.benchmarks.calibration.resampled import HIGHER_IS_BETTER, Draws, Gathered
from frostbench.benchmarks.calibration.runs import SIDES, Place, said_by
from frostbench.benchmarks.comparison.compare import Role
from frostbench.benchmarks.comparison.deltas import table_of
from frostbench.benchmarks.comparison.notes import notes_of
from frostbench.benchmarks.comparison.paired import Paired
from frostbench.benchmarks.comparison.significance import interval
from frostbench.benchmarks.runs.all_runs import count_runs
from frostbench.benchmarks.runs.calibration_sides import source_of
from frostbench.benchmarks.runs.record import mean_preference
from frostbench.benchmarks.runs.store import StoreError
from frostbench.benchmarks.runs.tuning import Tuned
from frostbench.embedcache.splits.cuts import merge_groups
from frostbench.training.metrics.bins import Floats

SIGNED = ("brier_within_covariance",)
"""Metrics that may be below 0; the intervals of all others end there."""
SOURCES = {
    "calibrate": "Temperatures were fitted to the calibration rows.",
    "select": "There are no calibration rows, so temperatures were fitted to the validation rows (select).",
    "folds": "There are no calibration rows, so temperatures were cross-fitted: each fold of the judged rows, with "
    "whole groups, has the temperature of the other folds.",
}


@dataclass(frozen=True)
class CalibrationReport:
    """What was found on one cache.

    Attributes:
        title: what it is about.
        cache: folder of the cache.
        role: whose rows were judged.
        baseline: name of the row that the others are compared with.
        rows: row name to run keys, one per seed; the baseline first.
        best: the row other than the baseline with the best validation macro F1, or the baseline where it is alone.
        table: one line per side, row and metric: side (before, after, as_is), value_low and value_high of the value,
            and the columns of `frostbench.benchmarks.comparison.compare.Comparison.table`; NaN where a run has no such
            figure.
        temperatures: row name to the temperature of each seed, NaN where there is none.
        said: row name to side to what charts show; a row with a run that has no such side has none.
        classes: every class of the baseline and of the best row, by side.
        draws: the resamples of the judged rows.
        seeds: seeds of every row.
        runs_seen: runs of the store that were evaluated on the same rows.
        others: how many rows of none of the classes were told apart; 0 for none.
        notes: what a reader must know of it.
    """

    title: str
    cache: str
    role: Role
    baseline: str
    rows: dict[str, tuple[str, ...]]
    best: str
    table: pd.DataFrame
    temperatures: dict[str, tuple[float, ...]]
    said: dict[str, dict[str, Confident]]
    classes: dict[str, dict[str, tuple[ClassCalibration, ...]]]
    draws: Draws
    seeds: tuple[int, ...]
    runs_seen: int
    others: int
    notes: tuple[str, ...]

    @property
    def sides(self) -> list[str]:
        """The sides that some row has, in order."""
        return list(dict.fromkeys(self.table["side"]))

    @property
    def metrics(self) -> list[str]:
        """The metrics of the table, in order."""
        return list(dict.fromkeys(self.table["metric"]))

    def line(self, side: str, row: str, metric: str) -> dict[str, float | str]:
        """The line of the table for one side, row and metric; empty where there is none."""
        table = self.table
        chosen = table[(table["side"] == side) & (table["row"] == row) & (table["metric"] == metric)]
        return {str(name): value for name, value in chosen.iloc[0].items()} if len(chosen) else {}


def report_of(
    paired: Paired,
    place: Place,
    name: str,
    resamples: int,
    tuned: Mapping[str, Tuned],
    told: Callable[[], None],
) -> CalibrationReport:
    """Read and measure all runs.

    Args:
        paired: rows of the bench.
        place: where their heads are, and the judged rows.
        name: of the bench.
        resamples: how many, B.
        tuned: what became of the settings of each row; empty where the bench does not tune.
        told: called after each run.

    Raises:
        StoreError: no run gave probabilities.
    """
    draws, best = Draws(paired.frame.groups, resamples, 0), best_row(paired)
    gathered, temperatures, said = _measured(paired, place, draws, told)
    runs_seen, unreadable = count_runs(place.store, paired.facts.split)
    own = notes_of(paired, place.role, unreadable, tuned)
    return CalibrationReport(
        title=f"{name} on {place.cache}",
        cache=place.cache,
        role="test" if place.role == "test" else "select",
        baseline=paired.baseline,
        rows=paired.rows,
        best=best,
        table=_tables(paired, gathered),
        temperatures=temperatures,
        said=said,
        classes={row: _classes(said[row], paired, draws) for row in dict.fromkeys((paired.baseline, best))},
        draws=draws,
        seeds=paired.seeds,
        runs_seen=runs_seen,
        others=0 if place.others is None else len(place.others.ids),
        notes=(SOURCES[source_of(place.split, place.role)], *_on_others(place, paired), *own),
    )


def best_row(paired: Paired) -> str:
    """The row other than the baseline with the best validation macro F1; test rows choose nothing."""
    others = [row for row in paired.records if row != paired.baseline]
    return max(others, key=lambda row: mean_preference(paired.records[row])) if others else paired.baseline


Shown = dict[str, dict[str, Confident]]


def _measured(
    paired: Paired, place: Place, draws: Draws, told: Callable[[], None]
) -> tuple[Gathered, dict[str, tuple[float, ...]], Shown]:
    """Figures of all runs, their temperatures, and what charts show of them; one run is in memory at a time."""
    others = None
    if place.others is not None:
        groups = merge_groups(place.others.groups, place.others.content)
        others = Draws(np.unique(groups, return_inverse=True)[1], draws.count, draws.seed + 1)
    gathered = Gathered(list(paired.records), len(paired.seeds), draws.count)
    temperatures: dict[str, tuple[float, ...]] = {}
    shown: Shown = {}
    for row, records in paired.records.items():
        kept: list[dict[str, Confident]] = []
        for seed, record in enumerate(records):
            said = said_by(record, place)
            gathered.add(row, seed, said, draws, others)
            kept.append({side: Confident.of(one) for side, one in said.judged.items() if one.is_number})
            temperatures[row] = (*temperatures.get(row, ()), said.temperature)
            told()
        whole = [side for side in SIDES if all(side in one for one in kept)]
        shown[row] = {side: Confident.joined([one[side] for one in kept]) for side in whole}
    return gathered, temperatures, shown


def _tables(paired: Paired, gathered: Gathered) -> pd.DataFrame:
    """The lines of all sides, those of before first."""
    if not gathered.sides:
        raise StoreError(
            f"calibration is measured on probabilities, however: every run of {list(paired.records)} gave NaN. Lower "
            "train.optim.lr and run the bench again."
        )
    return pd.concat([_table(paired, gathered, side) for side in gathered.sides], ignore_index=True)


def _table(paired: Paired, gathered: Gathered, side: str) -> pd.DataFrame:
    """The lines of one side, with the interval of each value; a metric that has no better side gets no verdict."""
    found = gathered.of(side)
    table = table_of(paired, found, {metric: HIGHER_IS_BETTER.get(metric, False) for metric in found.values})
    is_judged = table["metric"].isin(list(HIGHER_IS_BETTER))
    ends = {
        (row, metric): basic_interval(found.values[metric][at].mean(), moved[at], metric)
        for metric, moved in found.moved.items()
        for at, row in enumerate(paired.records)
    }
    low, high = zip(*(ends[place] for place in zip(table["row"], table["metric"], strict=True)), strict=True)
    verdict = table["verdict"].where(is_judged, "")
    return table.assign(side=side, value_low=low, value_high=high, verdict=verdict)


def basic_interval(value: float, moved: Floats, metric: str) -> tuple[float, float]:
    """The 95 % interval of a metric from its values on resamples [B], mirrored at its value, within what it can be."""
    low, high = interval(2 * value - moved)
    least = -np.inf if metric in SIGNED else 0.0
    most = 1.0 if metric.startswith("auroc") else np.inf
    return float(np.clip(low, least, most)), float(np.clip(high, least, most))


def _classes(said: dict[str, Confident], paired: Paired, draws: Draws) -> dict[str, tuple[ClassCalibration, ...]]:
    names = paired.facts.class_names
    return {side: class_calibration(one, paired.frame.labels, names, draws) for side, one in said.items()}


def _on_others(place: Place, paired: Paired) -> Sequence[str]:
    """Which classes the other rows share with the bench, where they do."""
    if place.others is None:
        return ()
    shared = sorted(set(place.others.class_names) & set(paired.facts.class_names))
    if not shared:
        return ()
    return (f"Rows to be told apart have classes with the names of those that are known: {', '.join(shared[:10])}.",)
