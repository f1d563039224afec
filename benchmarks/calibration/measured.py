"""Calibration of a bench's runs on one cache, with intervals and verdicts.

Calibration errors are absolute gaps, so sampling noise makes them larger, and resampling makes them larger still:
percentile intervals are too high and often lie above the value itself. The interval of a value is therefore Hall's
basic bootstrap interval, which reflects the resamples about the value. Most of this bias cancels in differences, whose
intervals are those of every comparison (`frostbench.benchmarks.comparison.significance`).
docs/calibration_metrics.md reports the coverage of these intervals in simulations.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from frostbench.benchmarks.calibration.classes import ClassCalibration, Confidences, class_calibration
from frostbench.benchmarks.calibration.resampled import HIGHER_IS_BETTER, Draws, Gathered
from frostbench.benchmarks.calibration.runs import SIDES, EvaluatedRows, probabilities_of
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
"""Metrics that can be negative; the intervals of all others are cut off at 0."""
SOURCES = {
    "calibrate": "Temperatures were fitted to the calibration rows.",
    "select": "There are no calibration rows, so temperatures were fitted to the validation rows (select).",
    "folds": "There are no calibration rows, so temperatures were cross-fitted: each fold of the evaluated rows (with "
    "whole groups) is scaled by a temperature fitted to the other folds.",
}


@dataclass(frozen=True)
class CalibrationReport:
    """Calibration of the rows of a bench on one cache.

    Attributes:
        title: title of the report.
        cache: folder of the cache.
        role: role of the evaluated rows.
        baseline: name of the row that the others are compared with.
        rows: row name to run keys, one per seed; the baseline comes first.
        best: the row, other than the baseline, with the best validation macro F1, or the baseline if it is the only
            row.
        table: one line per side, row and metric: side (before, after or as_is), value_low and value_high (95 % interval
            of the value), and the columns of `frostbench.benchmarks.comparison.compare.Comparison.table`; NaN if a run
            lacks the metric.
        temperatures: row name to the temperature of each seed; NaN if there is none.
        confidences: predictions for charts, by row name and side; sides that a run of the row lacks are omitted.
        classes: calibration of every class for the baseline and the best row, by side.
        draws: resamples of the evaluated rows.
        seeds: seeds of every row.
        runs_seen: number of runs in the store that were evaluated on the same rows.
        others: number of rows of other classes used for OOD detection.
        notes: caveats about the data, the figures and the runs.
    """

    title: str
    cache: str
    role: Role
    baseline: str
    rows: dict[str, tuple[str, ...]]
    best: str
    table: pd.DataFrame
    temperatures: dict[str, tuple[float, ...]]
    confidences: dict[str, dict[str, Confidences]]
    classes: dict[str, dict[str, tuple[ClassCalibration, ...]]]
    draws: Draws
    seeds: tuple[int, ...]
    runs_seen: int
    others: int
    notes: tuple[str, ...]

    @property
    def sides(self) -> list[str]:
        """Sides that some row has, in order."""
        return list(dict.fromkeys(self.table["side"]))

    @property
    def metrics(self) -> list[str]:
        """Metrics of the table, in order."""
        return list(dict.fromkeys(self.table["metric"]))

    def line(self, side: str, row: str, metric: str) -> dict[str, float | str]:
        """Return the table's line for a side, row and metric, as values by column; empty if there is none."""
        table = self.table
        chosen = table[(table["side"] == side) & (table["row"] == row) & (table["metric"] == metric)]
        return {str(name): value for name, value in chosen.iloc[0].items()} if len(chosen) else {}


def report_of(
    paired: Paired,
    evaluated: EvaluatedRows,
    name: str,
    resamples: int,
    tuned: Mapping[str, Tuned],
    on_run_done: Callable[[], None],
) -> CalibrationReport:
    """Load the heads of all runs and measure their calibration.

    Args:
        paired: rows of the bench.
        evaluated: location of the heads, and the evaluated rows.
        name: name of the bench.
        resamples: number of resamples, B.
        tuned: tuning result of each row; empty if the bench does not tune.
        on_run_done: called after each run.

    Raises:
        StoreError: no run gave finite probabilities.
    """
    draws, best = Draws(paired.frame.groups, resamples, 0), best_row(paired)
    gathered, temperatures, confidences = _measured(paired, evaluated, draws, on_run_done)
    runs_seen, unreadable = count_runs(evaluated.store, paired.facts.split)
    comparison_notes = notes_of(paired, evaluated.role, unreadable, tuned)
    return CalibrationReport(
        title=f"{name} on {evaluated.cache}",
        cache=evaluated.cache,
        role="test" if evaluated.role == "test" else "select",
        baseline=paired.baseline,
        rows=paired.rows,
        best=best,
        table=_tables(paired, gathered),
        temperatures=temperatures,
        confidences=confidences,
        classes={row: _classes(confidences[row], paired, draws) for row in dict.fromkeys((paired.baseline, best))},
        draws=draws,
        seeds=paired.seeds,
        runs_seen=runs_seen,
        others=0 if evaluated.others is None else len(evaluated.others.ids),
        notes=(
            SOURCES[source_of(evaluated.split, evaluated.role)],
            *_shared_classes(evaluated, paired),
            *comparison_notes,
        ),
    )


def best_row(paired: Paired) -> str:
    """Return the row with the best validation macro F1, other than the baseline unless there is no other row."""
    others = [row for row in paired.records if row != paired.baseline]
    return max(others, key=lambda row: mean_preference(paired.records[row])) if others else paired.baseline


ConfidencesByRow = dict[str, dict[str, Confidences]]


def _measured(
    paired: Paired, evaluated: EvaluatedRows, draws: Draws, on_run_done: Callable[[], None]
) -> tuple[Gathered, dict[str, tuple[float, ...]], ConfidencesByRow]:
    """Measure all runs, one in memory at a time: metrics, temperatures, and confidences for charts."""
    others = None
    if evaluated.others is not None:
        groups = merge_groups(evaluated.others.groups, evaluated.others.content)
        others = Draws(np.unique(groups, return_inverse=True)[1], draws.count, draws.seed + 1)
    gathered = Gathered(list(paired.records), len(paired.seeds), draws.count)
    temperatures: dict[str, tuple[float, ...]] = {}
    confidences: ConfidencesByRow = {}
    for row, records in paired.records.items():
        by_seed: list[dict[str, Confidences]] = []
        for seed, record in enumerate(records):
            probabilities = probabilities_of(record, evaluated)
            gathered.add(row, seed, probabilities, draws, others)
            by_seed.append(
                {side: Confidences.of(judged) for side, judged in probabilities.by_side.items() if judged.is_number}
            )
            temperatures[row] = (*temperatures.get(row, ()), probabilities.temperature)
            on_run_done()
        complete = [side for side in SIDES if all(side in run for run in by_seed)]
        confidences[row] = {side: Confidences.joined([run[side] for run in by_seed]) for side in complete}
    return gathered, temperatures, confidences


def _tables(paired: Paired, gathered: Gathered) -> pd.DataFrame:
    if not gathered.sides:
        raise StoreError(
            f"Calibration needs finite probabilities, but every run of {list(paired.records)} gave NaN. Lower "
            "train.optim.lr and run the bench again."
        )
    return pd.concat([_table(paired, gathered, side) for side in gathered.sides], ignore_index=True)


def _table(paired: Paired, gathered: Gathered, side: str) -> pd.DataFrame:
    """Return the lines of one side, with value intervals; metrics without a better direction get no verdict."""
    resampled = gathered.of(side)
    table = table_of(paired, resampled, {metric: HIGHER_IS_BETTER.get(metric, False) for metric in resampled.values})
    is_judged = table["metric"].isin(list(HIGHER_IS_BETTER))
    ends = {
        (row, metric): basic_interval(resampled.values[metric][index].mean(), replicates[index], metric)
        for metric, replicates in resampled.replicates.items()
        for index, row in enumerate(paired.records)
    }
    low, high = zip(*(ends[key] for key in zip(table["row"], table["metric"], strict=True)), strict=True)
    verdict = table["verdict"].where(is_judged, "")
    return table.assign(side=side, value_low=low, value_high=high, verdict=verdict)


def basic_interval(value: float, replicates: Floats, metric: str) -> tuple[float, float]:
    """Return the 95 % basic bootstrap interval from values on resamples [B], clipped to the range of the metric."""
    low, high = interval(2 * value - replicates)
    lowest = -np.inf if metric in SIGNED else 0.0
    highest = 1.0 if metric.startswith("auroc") else np.inf
    return float(np.clip(low, lowest, highest)), float(np.clip(high, lowest, highest))


def _classes(
    confidences: dict[str, Confidences], paired: Paired, draws: Draws
) -> dict[str, tuple[ClassCalibration, ...]]:
    names = paired.facts.class_names
    return {side: class_calibration(run, paired.frame.labels, names, draws) for side, run in confidences.items()}


def _shared_classes(evaluated: EvaluatedRows, paired: Paired) -> Sequence[str]:
    if evaluated.others is None:
        return ()
    shared = sorted(set(evaluated.others.class_names) & set(paired.facts.class_names))
    if not shared:
        return ()
    return (f"The rows for OOD detection include classes that the bench also has: {', '.join(shared[:10])}.",)
