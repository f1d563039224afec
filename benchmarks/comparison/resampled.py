"""All metrics of every run on the same resamples, and per-class F1 when two rows are compared side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from frostbench.benchmarks.comparison.bootstrap import point_sums, resampled_sums
from frostbench.benchmarks.comparison.frame import Floats
from frostbench.benchmarks.comparison.metrics import HIGHER_IS_BETTER, MAIN, Sums, metrics_of
from frostbench.benchmarks.comparison.paired import Paired
from frostbench.benchmarks.comparison.spread import Moments, Spread


@dataclass(frozen=True)
class Resampled:
    """Metrics of R rows of S runs on the original rows and on B resamples of them.

    Attributes:
        values: metric to values, [R, S]; NaN if a run lacks it. Metrics that no run has are omitted.
        replicates: metric to means over seeds on the resamples, [R, B].
        spreads: metric to each row's variances over the resamples, [R]; the first row is the base.
        classes: variances of per-class F1 over the resamples for the two rows requested, [2, C]; None if no rows were
            requested or a run of these has no valid predictions.
    """

    values: dict[str, Floats]
    replicates: dict[str, Floats]
    spreads: dict[str, Spread]
    classes: Spread | None = None


def resample(paired: Paired, count: int, seed: int, sides: tuple[str, str] | None = None) -> Resampled:
    """Draw resamples of the groups and compute every metric on them.

    Args:
        paired: the rows.
        count: number of resamples, B.
        seed: random seed.
        sides: two rows to compute per-class F1 for, the baseline first.
    """
    frame, runs = paired.frame, [run for runs in paired.predictions.values() for run in runs]
    valid = [index for index, run in enumerate(runs) if run.are_valid]
    points = [metrics_of(frame, sums) for sums in point_sums(frame, [runs[index] for index in valid])]
    first, second = (_indices(paired, valid, name) for name in sides) if sides else ([], [])
    classes = _ClassMoments(first, second) if first and second else None
    replicates = {name: np.full((len(runs), count), np.nan) for name in _present(points)}
    for chunk, sums_by_run in resampled_sums(frame, [runs[index] for index in valid], count, seed):
        for index, point, sums in zip(valid, points, sums_by_run, strict=True):
            metrics = metrics_of(frame, sums)
            for name in point:
                # A metric is missing if no resample of the chunk has a row for it; count it as 0.
                replicates[name][index, chunk] = metrics.get(name, 0.0)
        if classes is not None:
            classes.add(sums_by_run)
    shape = (len(paired.predictions), len(paired.seeds))
    by_row = {name: values.reshape(*shape, count) for name, values in replicates.items()}
    return Resampled(
        values={name: _values(name, valid, points, shape) for name in replicates},
        replicates={name: values.mean(1) for name, values in by_row.items()},
        spreads={name: Spread.of(values) for name, values in by_row.items()},
        classes=None if classes is None else classes.spread,
    )


def _present(points: Sequence[dict[str, Floats]]) -> list[str]:
    """Return the metrics that some run has, in order; the main metric is always included."""
    return [name for name in HIGHER_IS_BETTER if name == MAIN or any(name in point for point in points)]


def _indices(paired: Paired, valid: Sequence[int], name: str) -> list[int]:
    """Return the indices of a row's runs among the valid ones; empty if one of them is not valid."""
    start = list(paired.predictions).index(name) * len(paired.seeds)
    indices = range(start, start + len(paired.seeds))
    return [valid.index(index) for index in indices] if set(indices) <= set(valid) else []


def _values(name: str, valid: Sequence[int], points: Sequence[dict[str, Floats]], shape: tuple[int, int]) -> Floats:
    """Return the values [R, S] of a metric; NaN if a run lacks it."""
    values = np.full(shape[0] * shape[1], np.nan)
    for index, point in zip(valid, points, strict=True):
        values[index] = point[name][0] if name in point else np.nan
    return values.reshape(shape)


class _ClassMoments:
    """Spread of per-class F1 of two rows, accumulated chunk by chunk; a row is given by the indices of its runs."""

    def __init__(self, first: Sequence[int], second: Sequence[int]) -> None:
        self.indices = (first, second)
        self.run, self.mean, self.run_delta, self.mean_delta = Moments(), Moments(), Moments(), Moments()

    def add(self, sums_by_run: Sequence[Sums]) -> None:
        f1 = np.stack([np.stack([sums_by_run[index].f1 for index in runs]) for runs in self.indices]).astype(np.float64)
        self.run.add(f1)
        self.mean.add(f1.mean(1))
        self.run_delta.add(f1[1] - f1[0])
        self.mean_delta.add((f1[1] - f1[0]).mean(0))

    @property
    def spread(self) -> Spread:
        none = np.zeros_like(self.mean_delta.variance)
        run_delta = np.stack([none, self.run_delta.variance.mean(0)])
        return Spread(
            self.run.variance.mean(1), self.mean.variance, run_delta, np.stack([none, self.mean_delta.variance])
        )
