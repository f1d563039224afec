"""Calibration per class: binned class probabilities [N, C], class-wise ECE, and the parts of the Brier score.

The multi-class Brier score is the sum over classes k of the Brier score of p_k against whether the label is k, so it
is decomposed class by class, and each part is a sum over classes. With n_b rows in bin b, their mean probability p_b,
the share o_b of them that belongs to the class, and the share o of the class among all N rows (Murphy, "A new vector
partition of the probability score", Journal of Applied Meteorology 1973; Stephenson et al., "Two extra components in
the Brier score decomposition", Weather and Forecasting 2008):

    reliability  = sum n_b/N (p_b - o_b)^2      resolution = sum n_b/N (o_b - o)^2      uncertainty = o (1 - o)
    within_variance = sum over bins of n_b/N times the variance of p in b
    within_covariance = sum over bins of n_b/N times twice the covariance in b of p and membership of the class (1 or 0)
    Brier = reliability - resolution + uncertainty + within_variance - within_covariance

The last two are 0 if all probabilities in a bin are equal; otherwise the first three do not sum to the score.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import coo_array

from frostbench.training.metrics.bins import Floats, Ints, bin_of, checked_weights, group_matrix
from frostbench.training.metrics.classification import ECE_BINS


@dataclass(frozen=True)
class ClassSums:
    """Sums over the rows in each of M probability bins of each class, for B weightings of the rows.

    Attributes:
        rows: [C, M, B] number of rows.
        p: [C, M, B] sum of their probabilities of the class.
        members: [C, M, B] number of rows that belong to the class.
        total: [B] number of all rows.
        squares: [B] sum of all squared probabilities.
        right: [B] sum of the probabilities of the labels.
    """

    rows: Floats
    p: Floats
    members: Floats
    total: Floats
    squares: Floats
    right: Floats

    @property
    def ece(self) -> Floats:
        """Class-wise ECE [C, B]: row-weighted mean over bins of the gap between p_k and the frequency of class k.

        Classes without rows count too. The mean over classes is the static calibration error of Nixon et al., CVPR
        workshops 2019, and the class-wise ECE of Kull et al., "Beyond temperature scaling", NeurIPS 2019.
        """
        return np.asarray(np.abs(self.p - self.members).sum(1) / self.total)

    @property
    def brier_parts(self) -> dict[str, Floats]:
        """The five parts of the Brier score, each [B], by name."""
        share = self.rows / self.total
        p, frequency = _mean(self.p, self.rows), _mean(self.members, self.rows)
        base = self.members.sum(1) / self.total
        return {
            "reliability": (share * (p - frequency) ** 2).sum((0, 1)),
            "resolution": (share * (frequency - base[:, None]) ** 2).sum((0, 1)),
            "uncertainty": (base * (1 - base)).sum(0),
            "within_variance": self.squares / self.total - (share * p**2).sum((0, 1)),
            "within_covariance": 2 * (self.right / self.total - (share * p * frequency).sum((0, 1))),
        }


@dataclass(frozen=True)
class ClassBins:
    """Probabilities [N, C] and labels [N], sorted into bins once to be summed for many weightings of the rows."""

    p: Floats
    labels: Ints
    bins: int = ECE_BINS

    def sums(self, weights: Floats | None = None) -> ClassSums:
        """Sum the rows of each bin for weights [N, B]; without weights, B is 1.

        Most probabilities lie in the first bin, so it is computed as the total minus all other bins.

        Raises:
            ValueError: there are no rows.
        """
        weights = checked_weights(len(self.labels), weights)
        shape = (self.p.shape[1], self.bins, weights.shape[1])
        rows, p = (np.asarray(matrix @ weights).reshape(shape) for matrix in self._above_first)
        total = weights.sum(0)
        rows[:, 0] = total - rows.sum(1)
        p[:, 0] = self.p.T @ weights - p.sum(1)
        members = np.asarray(self._members @ weights).reshape(shape)
        right = self.p[np.arange(len(self.labels)), self.labels]
        return ClassSums(rows, p, members, total, (self.p**2).sum(1) @ weights, right @ weights)

    @cached_property
    def _bin(self) -> Ints:
        """Bin [N, C] of each probability."""
        return bin_of(self.p, self.bins)

    @cached_property
    def _above_first(self) -> tuple[Any, Any]:
        """Sparse matrices [C * M, N] with 1 and with the probability, for probabilities above the first bin."""
        row, kind = self._bin.nonzero()
        at = (kind * self.bins + self._bin[row, kind], row)
        shape = (self.p.shape[1] * self.bins, len(self.labels))
        values = (np.ones(len(row)), self.p[row, kind])
        ones, p = (coo_array((value, at), shape=shape).tocsr() for value in values)
        return ones, p

    @cached_property
    def _members(self) -> Any:
        """Sparse matrix [C * M, N] with 1 at the class of the label and the bin of its probability."""
        label_bin = self._bin[np.arange(len(self.labels)), self.labels]
        return group_matrix(self.labels * self.bins + label_bin, self.p.shape[1] * self.bins)


def _mean(sums: Floats, rows: Floats) -> Floats:
    """Return means, or 0 without rows."""
    return np.divide(sums, rows, out=np.zeros_like(sums), where=rows > 0)
