"""Variance of metrics over resamples: of single runs, of means over seeds, and of differences from a base row."""

from dataclasses import dataclass, field

import numpy as np

from frostbench.benchmarks.comparison.frame import Floats
from frostbench.benchmarks.comparison.groups import VarianceCorrection
from frostbench.benchmarks.comparison.significance import Differences, SeedVariance


@dataclass(frozen=True)
class Spread:
    """Variances over the resamples for each of R rows, the base first.

    Attributes:
        run: [R, ...] of a single run, averaged over seeds.
        mean: [R, ...] of the mean over seeds.
        run_delta: [R, ...] of the difference between a row's and the base's run of the same seed, averaged over seeds.
        mean_delta: [R, ...] of the difference between the means over seeds of a row and of the base.
    """

    run: Floats
    mean: Floats
    run_delta: Floats
    mean_delta: Floats

    @classmethod
    def of(cls, replicates: Floats) -> "Spread":
        """Compute the variances from all values [R, S, B]; NaN if a run has no value."""
        run_delta, means = replicates - replicates[:1], replicates.mean(1)
        return cls(
            _variance(replicates).mean(1), _variance(means), _variance(run_delta).mean(1), _variance(means - means[:1])
        )

    def differences(self, values: Floats, correction: VarianceCorrection) -> Differences:
        """Return the differences of all rows from the base, [R, ...]; the first is 0.

        Args:
            values: [R, ..., S] values on the original rows.
            correction: correction of the variances for the number of groups behind the metric.
        """
        factor = correction.factor
        rows = SeedVariance.of(values, factor * self.run, factor * self.mean)
        base = SeedVariance(np.broadcast_to(rows.variance[:1], rows.variance.shape), rows.shared[:1], rows.freedom)
        paired = SeedVariance.of(values - values[:1], factor * self.run_delta, factor * self.mean_delta)
        deltas = np.asarray((values - values[:1]).mean(-1))
        return Differences.of(deltas, factor * self.mean_delta, correction.freedom, (base, rows), paired)


def _variance(drawn: Floats) -> Floats:
    return np.asarray(drawn.var(-1, ddof=1))


@dataclass
class Moments:
    """Running variance of values that arrive in chunks and are not kept.

    Values are centred on the mean of the first chunk for numerical accuracy.
    """

    count: int = 0
    centre: Floats = field(default_factory=lambda: np.zeros(()))
    sums: Floats = field(default_factory=lambda: np.zeros(()))
    squares: Floats = field(default_factory=lambda: np.zeros(()))

    def add(self, values: Floats) -> None:
        """Add a chunk [..., b]."""
        if self.count == 0:
            self.centre = values.mean(-1)
            self.sums, self.squares = np.zeros_like(self.centre), np.zeros_like(self.centre)
        centred = values - self.centre[..., None]
        self.count += values.shape[-1]
        self.sums += centred.sum(-1)
        self.squares += (centred**2).sum(-1)

    @property
    def variance(self) -> Floats:
        """Unbiased variance of all values so far."""
        return np.maximum(0.0, (self.squares - self.sums**2 / self.count) / (self.count - 1))
