"""What the groups of a comparison are worth to a figure: a mean over classes hangs on the groups of the rare ones."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.stats import poisson

from frostbench.benchmarks.comparison.bootstrap import Floats, Frame, Ints

OF_CLASSES = {
    "macro_f1_fg": "fg",
    "macro_precision_fg": "fg",
    "macro_recall_fg": "fg",
    "balanced_accuracy": "seen",
    "recall_many": "many",
    "recall_medium": "medium",
    "recall_few": "few",
}
"""Metrics that are means over classes, and the classes (`Frame.classes`)."""
OF_GAPS = ("ece", "ece_over", "ece_under", "aece", "cece", "smece", "mce", "rmsce", "brier_reliability")
"""Metrics that are sizes of gaps. Near 0 a resample's noise turns their signs, and they seem to move too little."""
GAP_GROWTH = 4 / 3
"""Of the variance of those, from simulations of ECE (docs/results/verdicts.md)."""
OF_SEVERAL = 3
"""Of the degrees of freedom of a mean over several classes. A class that is empty in a resample counts with 0, so the
variance grows with the difference itself, and Satterthwaite's t is too wide: by itself it gave .4 to 2 % of verdicts in
regimes where 5 % are allowed (docs/results/verdicts.md has the level with this factor)."""


@dataclass(frozen=True)
class Groups:
    """The groups behind the variance of a figure over resamples.

    Attributes:
        growth: by what the variance over resamples must be multiplied; NaN where it says nothing.
        freedom: degrees of freedom of the result.
    """

    growth: float | Floats
    freedom: float | Floats

    @classmethod
    def of(cls, frame: Frame, metric: str) -> "Groups":
        """The groups of a metric."""
        if metric in OF_CLASSES:
            return cls._of(frame.groups_by_class[frame.classes[OF_CLASSES[metric]]])
        growth = GAP_GROWTH if metric in OF_GAPS else 1.0
        whole = frame.n_groups
        return cls(growth * whole / (whole - 1) if whole > 1 else np.nan, max(whole - 1, 1))

    @classmethod
    def of_each_class(cls, frame: Frame) -> "Groups":
        """The groups of every class by itself, [C]; NaN in a class without rows."""
        each = [cls._of(frame.groups_by_class[[c]]) for c in range(len(frame.train_counts))]
        return cls(np.array([one.growth for one in each]), np.array([one.freedom for one in each]))

    @classmethod
    def _of(cls, counts: Ints) -> "Groups":
        """The groups of a mean over classes that have so many groups each.

        With one variance in all classes that of the mean is in proportion to sum 1 / n, of which the bootstrap sees
        the sum of `seen`; the degrees of freedom are Satterthwaite's, for several classes times `OF_SEVERAL`.
        """
        if not counts.all() or not len(counts):
            return cls(np.nan, 1)
        found = np.array([seen(int(n)) for n in counts])
        growth = max(1.0, float((1 / counts).sum() / found.sum()))
        freedom = float(found.sum() ** 2 / (found**2 / np.maximum(counts - 1, 1)).sum())
        return cls(growth, freedom * (OF_SEVERAL if len(counts) > 1 else 1))


@lru_cache(maxsize=4096)
def seen(n: int) -> float:
    """The variance over resamples of the mean of a class with n groups, where that of a group is 1.

    A resample holds M of its groups, about Poisson(n). Given some, the mean over them moves by (n - 1) / n · 1 / M, for
    a population of n has that part of the variance. Without any the class counts with 0, and a mean that by itself is
    off 0 by 1 / n goes there. Of many groups, it is 1 / n.

    >>> [round(seen(n) * n, 3) for n in (1, 2, 4, 100)]
    [0.233, 0.616, 0.989, 1.0]
    """
    drawn = np.arange(1, n + 20 * math.isqrt(n) + 20)
    empty = math.exp(-n)
    return float((n - 1) / n * (poisson.pmf(drawn, n) / drawn).sum() + empty * (1 - empty) / n)
