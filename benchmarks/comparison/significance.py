"""Statistical significance of a difference between two rows: interval, p value, and Holm's correction.

The difference of two rows, each a mean over S seeds, varies for two reasons: other groups of images, and other seeds.
The bootstrap over groups estimates the first part, V_g. The spread over seeds estimates the second, but on these very
images: if one seed happens to be right on other images than the next, that adds to the spread too, and the bootstrap of
the mean has already counted it. This shared part, V_int, follows from how much more a single run varies over resamples
than the mean of the runs does. Hence

    V = max(0, V_g - V_int) + sum over sides of max(s² / S, V_int of the side)

The two parts have separate degrees of freedom. Welch's and Satterthwaite's approximation for their sum gives too many
verdicts when seeds contribute more than images and are few (docs/results/verdicts.md). The weighted quantile of Cochran
and Cox does not:

    half width = sqrt(V) · (rows · t(rows' freedom) + seeds · t(seeds' freedom)) / V

where seeds is the sum of s² / S, and rows is the rest of V. If V_int exceeds s² / S, the excess counts toward rows: the
bootstrap estimates it well, so it does not get the few degrees of freedom of the seeds.

Cochran and Cox, "Experimental Designs", 2nd edition, Wiley 1957, section 4.14; Welch, "The generalization of
'Student's' problem", Biometrika 1947.

Runs of the same seed may or may not vary together in both rows. If they do not, the unpaired test (up to 2 S - 2
degrees of freedom) is more powerful; if they do, the test of differences seed by seed (S - 1) is. Both are tried, at .8
and .6 of the level. The sum exceeds one level, but both tests are conservative and tend to err together;
docs/results/verdicts.md reports the level of the combination.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from frostbench.benchmarks.comparison.frame import Bools, Floats

LEVEL = 0.05
"""Significance level of verdicts; intervals have coverage 1 - LEVEL."""
UNPAIRED_SHARE, PAIRED_SHARE = 0.8, 0.6
"""Fractions of the level spent on the unpaired test (independent sides) and on the test of differences seed by seed."""
LEAST_P = 1e-9
"""Smallest p value reported; no model of the uncertainty is accurate so far out in the tails."""
HALVINGS = 40
"""Bisections of log p between LEAST_P and 1; the error is below 1e-10."""


@dataclass(frozen=True)
class SeedVariance:
    """Variance of a side's mean over seeds due to the seeds; a side is a row, or a difference of two rows.

    Attributes:
        variance: variance of the mean over seeds on these images, s² / S.
        shared: the part of it due to the images, which the bootstrap of the mean also contains, V_int.
        freedom: degrees of freedom, S - 1.
    """

    variance: Floats
    shared: Floats
    freedom: int

    @classmethod
    def of(cls, values: Floats, run: Floats, mean: Floats) -> "SeedVariance":
        """Compute the seed variance of a side from its runs.

        Args:
            values: [..., S] values on the original rows.
            run: [...] variance over resamples of a single run, averaged over seeds.
            mean: [...] variance over resamples of the mean over seeds.
        """
        seeds = values.shape[-1]
        if seeds == 1:
            return cls(np.where(np.isfinite(values[..., 0]), 0.0, np.nan), np.zeros_like(mean), 0)
        # The mean of equal numbers is rounded, which would give a variance of about 1e-33.
        variance = np.where(np.ptp(values, axis=-1) == 0, 0.0, values.var(-1, ddof=1) / seeds)
        return cls(variance, np.maximum(0.0, run - mean) / (seeds - 1), seeds - 1)

    @property
    def combined(self) -> Floats:
        """Variance of the mean over seeds, at least the shared part; 0 if the seed has no effect."""
        return np.where(self.variance == 0, 0.0, np.maximum(self.variance, self.shared))


@dataclass(frozen=True)
class Uncertainty:
    """Uncertainty of differences, in two parts.

    Attributes:
        rows: [...] variance estimated from the resamples but not from the seeds.
        seeds: [...] variance over the seeds.
        rows_freedom: [...] degrees of freedom of `rows`.
        seeds_freedom: [...] degrees of freedom of `seeds`.
        shared: [...] the part of `seeds` that is due to the images and shrinks with more of them.
    """

    rows: Floats
    seeds: Floats
    rows_freedom: Floats
    seeds_freedom: Floats
    shared: Floats

    @classmethod
    def of(cls, groups: Floats, groups_freedom: float | Floats, sides: Sequence[SeedVariance]) -> "Uncertainty":
        """Combine the parts; the seeds of several sides get Welch's degrees of freedom.

        Args:
            groups: [...] variance of the difference over resamples of the groups, V_g.
            groups_freedom: its degrees of freedom.
            sides: both rows, or only the differences seed by seed.
        """
        seeds = np.asarray(sum(side.variance for side in sides))
        shared = np.asarray(sum(np.where(side.variance == 0, 0.0, side.shared) for side in sides))
        terms = sum(side.variance**2 / max(side.freedom, 1) for side in sides)
        freedom = np.divide(seeds**2, terms, out=np.ones_like(seeds), where=np.asarray(terms) > 0)
        rows = np.maximum(0.0, groups - shared) + sum(side.combined for side in sides) - seeds
        rows_freedom = np.broadcast_to(np.asarray(groups_freedom, np.float64), seeds.shape)
        return cls(rows, seeds, rows_freedom, freedom, np.minimum(shared, seeds))

    @property
    def variance(self) -> Floats:
        """Variance of the difference, V."""
        return self.rows + self.seeds

    def at(self, index: int) -> "Uncertainty":
        """Return the uncertainty of one difference."""
        return Uncertainty(*(np.asarray(part[index]) for part in vars(self).values()))

    def half_width(self, level: float | Floats) -> Floats:
        """Return half the width [...] of the interval with coverage 1 - level."""
        total = self.variance
        tails = (np.abs(stdtrit(freedom, np.asarray(level) / 2)) for freedom in (self.rows_freedom, self.seeds_freedom))
        weighed = sum(part * tail for part, tail in zip((self.rows, self.seeds), tails, strict=True))
        empty = np.where(np.isnan(total), np.nan, np.zeros(np.broadcast(total, level).shape))
        return np.asarray(np.divide(weighed, np.sqrt(total), out=empty, where=total > 0))

    def p(self, deltas: Floats) -> Floats:
        """Return two-sided p values [...] of deltas [...]: the level at which half the width equals |delta|."""
        low, high = np.full(np.shape(deltas), math.log(LEAST_P)), np.zeros(np.shape(deltas))
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            is_wide = self.half_width(np.exp(middle)) >= np.abs(deltas)
            low, high = np.where(is_wide, middle, low), np.where(is_wide, high, middle)
        return np.where(np.isfinite(deltas) & np.isfinite(self.variance), np.exp((low + high) / 2), np.nan)


@dataclass(frozen=True)
class Differences:
    """Differences from a base row with their uncertainty.

    Attributes:
        deltas: [...] differences of the means over seeds.
        unpaired: uncertainty if the seeds of the two rows are independent.
        paired: uncertainty of the differences seed by seed.
        use_both: [...] whether both tests apply; they are the same if a row does not depend on its seed.
    """

    deltas: Floats
    unpaired: Uncertainty
    paired: Uncertainty
    use_both: Bools

    @classmethod
    def of(
        cls,
        deltas: Floats,
        groups: Floats,
        groups_freedom: float | Floats,
        sides: tuple[SeedVariance, SeedVariance],
        by_seed: SeedVariance,
    ) -> "Differences":
        """Combine differences with the variances over groups and over seeds.

        Args:
            deltas: [...] differences of the means over seeds.
            groups: [...] their variance over resamples of the groups.
            groups_freedom: degrees of freedom of `groups`.
            sides: seed variance of the base and of the other row.
            by_seed: seed variance of the differences seed by seed.
        """
        unpaired = Uncertainty.of(groups, groups_freedom, sides)
        paired = Uncertainty.of(groups, groups_freedom, (by_seed,))
        return cls(deltas, unpaired, paired, (sides[0].variance > 0) & (sides[1].variance > 0))

    @property
    def p(self) -> Floats:
        """Two-sided p values [...], at most 1, without Holm's correction."""
        unpaired = self.unpaired.p(self.deltas) / np.where(self.use_both, UNPAIRED_SHARE, 1.0)
        paired = np.where(self.use_both, self.paired.p(self.deltas) / PAIRED_SHARE, np.inf)
        return np.where(np.isnan(unpaired), np.nan, np.minimum(1.0, np.minimum(unpaired, paired)))

    def half_width(self, level: float = LEVEL) -> Floats:
        """Return the half-width of each interval; an interval excludes 0 if its p is below the level."""
        unpaired = self.unpaired.half_width(level * np.where(self.use_both, UNPAIRED_SHARE, 1.0))
        return np.where(self.use_both, np.minimum(unpaired, self.paired.half_width(level * PAIRED_SHARE)), unpaired)

    def without_base(self) -> "Differences":
        """Return all differences except the first."""
        unpaired, paired = (
            Uncertainty(*(part[1:] for part in vars(one).values())) for one in (self.unpaired, self.paired)
        )
        return Differences(self.deltas[1:], unpaired, paired, self.use_both[1:])

    def level_share(self, index: int) -> float:
        """Return the fraction of the level spent on whichever test has the narrower interval for one difference."""
        if not self.use_both[index]:
            return 1.0
        return PAIRED_SHARE if self._paired_is_narrower(index) else UNPAIRED_SHARE

    def uncertainty(self, index: int) -> Uncertainty:
        """Return the uncertainty of one difference, by the test with the narrower interval."""
        return (self.paired if self._paired_is_narrower(index) else self.unpaired).at(index)

    def _paired_is_narrower(self, index: int) -> bool:
        unpaired, paired = self.unpaired.at(index), self.paired.at(index)
        is_narrower = paired.half_width(LEVEL * PAIRED_SHARE) < unpaired.half_width(LEVEL * UNPAIRED_SHARE)
        return bool(self.use_both[index] and is_narrower)


def interval(deltas: Floats) -> tuple[float, float]:
    """Return the 95 % percentile interval of bootstrap values [B]."""
    low, high = np.percentile(deltas, [2.5, 97.5])
    return float(low), float(high)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values after Holm's step-down correction for several comparisons; NaN is ignored and stays NaN.

    Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 1979.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03, 0.005])]
    [0.03, 0.06, 0.06, 0.02]
    """
    made = [index for index, p in enumerate(p_values) if not math.isnan(p)]
    adjusted, highest = [math.nan] * len(p_values), 0.0
    for rank, index in enumerate(sorted(made, key=lambda index: p_values[index])):
        highest = max(highest, min(1.0, (len(made) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted
