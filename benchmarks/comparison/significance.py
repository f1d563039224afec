"""How sure a difference of two rows is: from variances to an interval and a p, and Holm's correction of several p.

A difference of two rows of runs, both means over S seeds, would move for two reasons: with other groups of images, and
with other seeds. The bootstrap over groups measures the first, V_g. The spread over seeds measures the second, but on
these very images: a seed that happens to be right on other images than the next spreads too, and the bootstrap of the
mean has counted that already. This shared part, V_int, follows from how much more a run moves on resamples than the
mean of the runs does. So

    V = max(0, V_g - V_int) + sum over sides of max(s² / S, V_int of the side)

The two parts have degrees of freedom of their own. Welch's and Satterthwaite's for their sum give too many verdicts
where seeds outweigh images and are few (docs/results/verdicts.md); Cochran's and Cox's weighted quantile does not:

    half a width = sqrt(V) · (rows · t(rows' freedom) + seeds · t(seeds' freedom)) / V

where seeds is sum of s² / S, and rows the rest of V. So a V_int that is larger than what the seeds show, which a
bootstrap knows well, does not count as if a few seeds had said so.

Cochran and Cox, "Experimental Designs", 2nd edition, Wiley 1957, section 4.14; Welch, "The generalization of
'Student's' problem", Biometrika 1947.

Runs of one seed may move together in both rows, or not. Sides by themselves (2 S - 2 degrees of freedom at best) are
the sharper test where they do not, differences seed by seed (S - 1) where they do. Both are tried, at .8 and .6 of the
level. That is more than one level in sum; but both err on the safe side and often err together: the level of the two is
in docs/results/verdicts.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from frostbench.benchmarks.comparison.bootstrap import Bools, Floats

LEVEL = 0.05
"""Of a verdict, and one less the coverage of an interval."""
ALONE_SHARE, PAIRED_SHARE = 0.8, 0.6
"""Parts of the level at which sides by themselves, and differences seed by seed, are tried."""
LEAST_P = 1e-9
"""A smaller p is given as this: no model of the doubt holds so far out."""
HALVINGS = 40
"""Bisections of log p between LEAST_P and 1: the error is below 1e-10."""


@dataclass(frozen=True)
class Seeds:
    """How much the mean of a side over its seeds would move with other seeds; a side is a row, or a difference.

    Attributes:
        variance: of the mean over seeds on these rows, s² / S.
        shared: the part of it that comes with the rows, and that the bootstrap of the mean holds as well, V_int.
        freedom: S - 1.
    """

    variance: Floats
    shared: Floats
    freedom: int

    @classmethod
    def of(cls, values: Floats, each: Floats, mean: Floats) -> "Seeds":
        """From what the runs of a side do.

        Args:
            values: [..., S] on the rows themselves.
            each: [...] variance over resamples of one run, mean over seeds.
            mean: [...] variance over resamples of the mean over seeds.
        """
        seeds = values.shape[-1]
        if seeds == 1:
            return cls(np.where(np.isfinite(values[..., 0]), 0.0, np.nan), np.zeros_like(mean), 0)
        # Equal numbers have a mean that rounds, and so a variance of 1e-33 about it.
        variance = np.where(np.ptp(values, axis=-1) == 0, 0.0, values.var(-1, ddof=1) / seeds)
        return cls(variance, np.maximum(0.0, each - mean) / (seeds - 1), seeds - 1)

    @property
    def doubt(self) -> Floats:
        """The variance of the mean over seeds, at least what is known of its rows' part; 0 where no seed matters."""
        return np.where(self.variance == 0, 0.0, np.maximum(self.variance, self.shared))


@dataclass(frozen=True)
class Doubt:
    """The doubt about differences, in two parts.

    Attributes:
        rows: [...] variance that is known from the resamples and not from the seeds.
        seeds: [...] variance over the seeds.
        rows_freedom: [...] degrees of freedom of the first.
        seeds_freedom: [...] degrees of freedom of the second.
        shared: [...] the part of `seeds` that comes with the rows, and falls with more of them.
    """

    rows: Floats
    seeds: Floats
    rows_freedom: Floats
    seeds_freedom: Floats
    shared: Floats

    @classmethod
    def of(cls, groups: Floats, groups_freedom: float | Floats, sides: Sequence[Seeds]) -> "Doubt":
        """From the parts: Welch's degrees of freedom for the seeds of several sides.

        Args:
            groups: [...] variance of the difference over resamples of the groups, V_g.
            groups_freedom: its degrees of freedom.
            sides: two rows, or the differences seed by seed alone.
        """
        seeds = np.asarray(sum(side.variance for side in sides))
        shared = np.asarray(sum(np.where(side.variance == 0, 0.0, side.shared) for side in sides))
        parts = sum(side.variance**2 / max(side.freedom, 1) for side in sides)
        freedom = np.divide(seeds**2, parts, out=np.ones_like(seeds), where=np.asarray(parts) > 0)
        rows = np.maximum(0.0, groups - shared) + sum(side.doubt for side in sides) - seeds
        rows_freedom = np.broadcast_to(np.asarray(groups_freedom, np.float64), seeds.shape)
        return cls(rows, seeds, rows_freedom, freedom, np.minimum(shared, seeds))

    @property
    def variance(self) -> Floats:
        """Of the difference, V."""
        return self.rows + self.seeds

    def at(self, place: int) -> "Doubt":
        """The doubt about one of the differences."""
        return Doubt(*(np.asarray(part[place]) for part in vars(self).values()))

    def half_width(self, level: float | Floats) -> Floats:
        """Half the width [...] of the interval that leaves out the truth with this probability."""
        whole = self.variance
        tails = (np.abs(stdtrit(freedom, np.asarray(level) / 2)) for freedom in (self.rows_freedom, self.seeds_freedom))
        weighed = sum(part * tail for part, tail in zip((self.rows, self.seeds), tails, strict=True))
        empty = np.where(np.isnan(whole), np.nan, np.zeros(np.broadcast(whole, level).shape))
        return np.asarray(np.divide(weighed, np.sqrt(whole), out=empty, where=whole > 0))

    def p(self, deltas: Floats) -> Floats:
        """Two-sided p [...] of differences [...]: the level at which half the width is the difference."""
        low, high = np.full(np.shape(deltas), math.log(LEAST_P)), np.zeros(np.shape(deltas))
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            is_wide = self.half_width(np.exp(middle)) >= np.abs(deltas)
            low, high = np.where(is_wide, middle, low), np.where(is_wide, high, middle)
        return np.where(np.isfinite(deltas) & np.isfinite(self.variance), np.exp((low + high) / 2), np.nan)


@dataclass(frozen=True)
class Judgement:
    """What is known of differences, and in which ways they may be judged.

    Attributes:
        deltas: [...] the differences, means over seeds.
        alone: the doubt where each row has seeds of its own.
        paired: the doubt of the differences seed by seed.
        two_ways: [...] whether both are tried; where a row does not depend on its seed they are the same.
    """

    deltas: Floats
    alone: Doubt
    paired: Doubt
    two_ways: Bools

    @property
    def p(self) -> Floats:
        """Two-sided p [...], before Holm's correction; at most 1."""
        alone = self.alone.p(self.deltas) / np.where(self.two_ways, ALONE_SHARE, 1.0)
        paired = np.where(self.two_ways, self.paired.p(self.deltas) / PAIRED_SHARE, np.inf)
        return np.where(np.isnan(alone), np.nan, np.minimum(1.0, np.minimum(alone, paired)))

    def half_width(self, level: float = LEVEL) -> Floats:
        """Half the width [...] of an interval around the difference; it leaves out 0 where p is below the level."""
        alone = self.alone.half_width(level * np.where(self.two_ways, ALONE_SHARE, 1.0))
        return np.where(self.two_ways, np.minimum(alone, self.paired.half_width(level * PAIRED_SHARE)), alone)

    def without_base(self) -> "Judgement":
        """The differences of all places but the first."""
        alone, paired = (Doubt(*(part[1:] for part in vars(one).values())) for one in (self.alone, self.paired))
        return Judgement(self.deltas[1:], alone, paired, self.two_ways[1:])

    def share_of(self, place: int) -> float:
        """The part of the level at which the way that gives the interval of one difference is tried."""
        if not self.two_ways[place]:
            return 1.0
        return PAIRED_SHARE if self._is_paired(place) else ALONE_SHARE

    def narrower(self, place: int) -> Doubt:
        """The doubt that gives the interval of one difference."""
        return (self.paired if self._is_paired(place) else self.alone).at(place)

    def _is_paired(self, place: int) -> bool:
        """Whether the interval of a difference comes from differences seed by seed."""
        alone, paired = self.alone.at(place), self.paired.at(place)
        is_narrower = paired.half_width(LEVEL * PAIRED_SHARE) < alone.half_width(LEVEL * ALONE_SHARE)
        return bool(self.two_ways[place] and is_narrower)


def judge(
    deltas: Floats, groups: Floats, groups_freedom: float | Floats, sides: tuple[Seeds, Seeds], paired: Seeds
) -> Judgement:
    """Judge differences.

    Args:
        deltas: [...] the differences, means over seeds.
        groups: [...] their variance over resamples of the groups.
        groups_freedom: its degrees of freedom.
        sides: the seeds of the base and of the other row.
        paired: the seeds of the differences seed by seed.
    """
    alone = Doubt.of(groups, groups_freedom, sides)
    together = Doubt.of(groups, groups_freedom, (paired,))
    return Judgement(deltas, alone, together, (sides[0].variance > 0) & (sides[1].variance > 0))


def interval(deltas: Floats) -> tuple[float, float]:
    """The percentile 95 % interval of values on resamples [B]."""
    low, high = np.percentile(deltas, [2.5, 97.5])
    return float(low), float(high)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment of p values for a family of comparisons; NaN is no comparison and stays NaN.

    Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 1979.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03, 0.005])]
    [0.03, 0.06, 0.06, 0.02]
    """
    made = [place for place, p in enumerate(p_values) if not math.isnan(p)]
    adjusted, highest = [math.nan] * len(p_values), 0.0
    for rank, place in enumerate(sorted(made, key=lambda place: p_values[place])):
        highest = max(highest, min(1.0, (len(made) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted
