"""How far figures move over resamples: of single runs, of their mean over seeds, and of differences from a base."""

from dataclasses import dataclass, field

import numpy as np

from frostbench.benchmarks.comparison.bootstrap import Floats
from frostbench.benchmarks.comparison.groups import Groups
from frostbench.benchmarks.comparison.significance import Judgement, Seeds, judge


@dataclass(frozen=True)
class Spread:
    """Variances over the resamples for each of R rows, the base first.

    Attributes:
        each: [R, ...] of a run, mean over seeds.
        mean: [R, ...] of the mean over seeds.
        apart: [R, ...] of the difference between runs of one seed, a row's and the base's, mean over seeds.
        between: [R, ...] of the difference between the means over seeds of a row and of the base.
    """

    each: Floats
    mean: Floats
    apart: Floats
    between: Floats

    @classmethod
    def of(cls, moved: Floats) -> "Spread":
        """From all values [R, S, B]; NaN where a run has none."""
        apart, means = moved - moved[:1], moved.mean(1)
        return cls(_variance(moved).mean(1), _variance(means), _variance(apart).mean(1), _variance(means - means[:1]))

    def judged(self, values: Floats, groups: Groups) -> Judgement:
        """Judge the differences of all rows from the base, [R, ...]; that of the base from itself is 0.

        Args:
            values: [R, ..., S] on the rows themselves.
            groups: what the groups that were resampled are worth to the figure.
        """
        grown = groups.growth
        rows = Seeds.of(values, grown * self.each, grown * self.mean)
        base = Seeds(np.broadcast_to(rows.variance[:1], rows.variance.shape), rows.shared[:1], rows.freedom)
        paired = Seeds.of(values - values[:1], grown * self.apart, grown * self.between)
        deltas = np.asarray((values - values[:1]).mean(-1))
        return judge(deltas, grown * self.between, groups.freedom, (base, rows), paired)


def _variance(drawn: Floats) -> Floats:
    return np.asarray(drawn.var(-1, ddof=1))


@dataclass
class Moments:
    """The variance of values that come piece by piece, without keeping them.

    Values are taken from the mean of the first piece, so that squares lose no digits.
    """

    count: int = 0
    centre: Floats = field(default_factory=lambda: np.zeros(()))
    sums: Floats = field(default_factory=lambda: np.zeros(()))
    squares: Floats = field(default_factory=lambda: np.zeros(()))

    def add(self, values: Floats) -> None:
        """Take in a piece [..., b]."""
        if self.count == 0:
            self.centre = values.mean(-1)
            self.sums, self.squares = np.zeros_like(self.centre), np.zeros_like(self.centre)
        moved = values - self.centre[..., None]
        self.count += values.shape[-1]
        self.sums += moved.sum(-1)
        self.squares += (moved**2).sum(-1)

    @property
    def variance(self) -> Floats:
        """Of all values so far, with one degree of freedom less than there are."""
        return np.maximum(0.0, (self.squares - self.sums**2 / self.count) / (self.count - 1))
