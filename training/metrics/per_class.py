"""Calibration class by class: each class's probability [N, C] in bins, class-wise ECE, and the Brier score's parts.

The Brier score of several classes is the sum over classes of that of p_k against whether the label is k, so it is taken
apart class by class, and each part is a sum over classes. With n_b rows in bin b, their mean probability p_b, the share
o_b of them that belongs to the class, and the share o of the class among all N rows (Murphy, "A new vector partition of
the probability score", Journal of Applied Meteorology 1973; Stephenson et al., "Two extra components in the Brier score
decomposition", Weather and Forecasting 2008):

    reliability  = sum n_b/N (p_b - o_b)^2      resolution = sum n_b/N (o_b - o)^2      uncertainty = o (1 - o)
    within_variance = sum over bins of n_b/N times the variance of p in b
    within_covariance = sum over bins of n_b/N times twice the covariance of p and belonging in b
    Brier = reliability - resolution + uncertainty + within_variance - within_covariance

The last two would be 0, were all probabilities of a bin the same; without them the parts do not sum to the score.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import coo_array

from frostbench.training.metrics.bins import Floats, Ints, bin_of, one_each, placed
from frostbench.training.metrics.classification import ECE_BINS


@dataclass(frozen=True)
class ClassSums:
    """What falls into each of M bins of each class's probability, for each of B weightings of the rows.

    Attributes:
        rows: [C, M, B] rows.
        p: [C, M, B] sums of their probability of the class.
        own: [C, M, B] those that belong to the class.
        total: [B] all rows.
        squares: [B] sums of all squared probabilities.
        right: [B] sums of the probability of the label.
    """

    rows: Floats
    p: Floats
    own: Floats
    total: Floats
    squares: Floats
    right: Floats

    @property
    def ece(self) -> Floats:
        """Class-wise ECE [C, B]: the mean gap of p_k to belonging to k, over all rows; of absent classes too.

        Its mean over classes is the static calibration error of Nixon et al., CVPR workshops 2019, and the class-wise
        ECE of Kull et al., "Beyond temperature scaling", NeurIPS 2019.
        """
        return np.asarray(np.abs(self.p - self.own).sum(1) / self.total)

    @property
    def brier_parts(self) -> dict[str, Floats]:
        """The five parts of the Brier score by name, each [B]."""
        share = self.rows / self.total
        p, own = _mean(self.p, self.rows), _mean(self.own, self.rows)
        base = self.own.sum(1) / self.total
        return {
            "reliability": (share * (p - own) ** 2).sum((0, 1)),
            "resolution": (share * (own - base[:, None]) ** 2).sum((0, 1)),
            "uncertainty": (base * (1 - base)).sum(0),
            "within_variance": self.squares / self.total - (share * p**2).sum((0, 1)),
            "within_covariance": 2 * (self.right / self.total - (share * p * own).sum((0, 1))),
        }


@dataclass(frozen=True)
class ClassBins:
    """Probabilities [N, C] and labels [N], sorted into bins once, to be summed under many weightings of the rows."""

    p: Floats
    labels: Ints
    bins: int = ECE_BINS

    def sums(self, weights: Floats | None = None) -> ClassSums:
        """What falls into each bin, under weights [N, B]; without any, each row counts once and B is 1.

        Most probabilities lie in the first bin, which gets what the others leave of all rows.

        Raises:
            ValueError: there are no rows.
        """
        each = one_each(len(self.labels), weights)
        shape = (self.p.shape[1], self.bins, each.shape[1])
        rows, p = (np.asarray(one @ each).reshape(shape) for one in self._above_first)
        total = each.sum(0)
        rows[:, 0] = total - rows.sum(1)
        p[:, 0] = self.p.T @ each - p.sum(1)
        own = np.asarray(self._own @ each).reshape(shape)
        right = self.p[np.arange(len(self.labels)), self.labels]
        return ClassSums(rows, p, own, total, (self.p**2).sum(1) @ each, right @ each)

    @cached_property
    def _place(self) -> Ints:
        """[N, C] bin of each probability."""
        return bin_of(self.p, self.bins)

    @cached_property
    def _above_first(self) -> tuple[Any, Any]:
        """Sparse [C * M, N]: 1 and the probability, where it lies above the first bin."""
        row, kind = self._place.nonzero()
        at = (kind * self.bins + self._place[row, kind], row)
        shape = (self.p.shape[1] * self.bins, len(self.labels))
        values = (np.ones(len(row)), self.p[row, kind])
        ones, p = (coo_array((value, at), shape=shape).tocsr() for value in values)
        return ones, p

    @cached_property
    def _own(self) -> Any:
        """Sparse [C * M, N]: 1 at the class of the label and the bin of its probability."""
        place = self._place[np.arange(len(self.labels)), self.labels]
        return placed(self.labels * self.bins + place, self.p.shape[1] * self.bins)


def _mean(sums: Floats, rows: Floats) -> Floats:
    """Means, 0 where there are no rows."""
    return np.divide(sums, rows, out=np.zeros_like(sums), where=rows > 0)
