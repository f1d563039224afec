"""Calibration errors over bins: gaps between confidence [N] and correctness [N], in equal-width or equal-mass bins.

Rows may have weights [N, B], such as their counts in B bootstrap resamples; every value then has shape [B].
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array

from frostbench.training.metrics.classification import ECE_BINS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def checked_weights(rows: int, weights: Floats | None) -> Floats:
    """Return the weights [N, B], or ones [N, 1] if there are none.

    Raises:
        ValueError: there are no rows.
    """
    if rows == 0:
        raise ValueError("Calibration metrics need at least one row, got none. Check the split.")
    return np.ones((rows, 1)) if weights is None else weights


def bin_of(values: Floats, bins: int = ECE_BINS) -> Ints:
    """Return the index of each value's equal-width bin of [0, 1], closed on the right; the first bin also holds 0.

    >>> bin_of(np.array([0.0, 0.25, 0.26, 1.0]), bins=4)
    array([0, 0, 1, 3])
    """
    return np.clip(np.ceil(values * bins).astype(np.int64) - 1, 0, bins - 1)


def sums_by(index: Ints, count: int, weights: Floats) -> Floats:
    """Sum weights [N, B] by the group index of each row [N] into [count, B]."""
    return np.asarray(group_matrix(index, count) @ weights)


def group_matrix(index: Ints, count: int) -> Any:
    """Return the sparse matrix [count, N] that sums the rows of an array by their group index [N]."""
    rows = len(index)
    return coo_array((np.ones(rows), (index, np.arange(rows))), shape=(count, rows)).tocsr()


@dataclass(frozen=True)
class BinSums:
    """Sums over the rows in each of M confidence bins, for B weightings of the rows.

    Attributes:
        rows: [M, B] number of rows.
        gaps: [M, B] sum of confidence minus correctness (1 or 0).
    """

    rows: Floats
    gaps: Floats

    @classmethod
    def of(cls, confidences: Floats, right: Bools, bins: int = ECE_BINS, weights: Floats | None = None) -> "BinSums":
        """Sum the rows of each equal-width bin, closed on the right.

        Raises:
            ValueError: there are no rows.
        """
        weights, index = checked_weights(len(confidences), weights), bin_of(confidences, bins)
        return cls(sums_by(index, bins, weights), sums_by(index, bins, weights * (confidences - right)[:, None]))

    @property
    def total(self) -> Floats:
        """Number [B] of all rows."""
        return np.asarray(self.rows.sum(0))

    @property
    def ece(self) -> Floats:
        """Expected calibration error [B]: the mean absolute gap. Naeini et al., AAAI 2015."""
        return np.asarray(np.abs(self.gaps).sum(0) / self.total)

    @property
    def over(self) -> Floats:
        """Overconfident part [B] of the ECE, from bins whose confidence exceeds their accuracy; the rest is `under`."""
        return np.asarray(np.maximum(self.gaps, 0).sum(0) / self.total)

    @property
    def under(self) -> Floats:
        """Underconfident part [B] of the ECE, from bins whose accuracy exceeds their confidence."""
        return np.asarray(np.maximum(-self.gaps, 0).sum(0) / self.total)

    @property
    def mce(self) -> Floats:
        """Maximum calibration error [B]: the largest mean gap of a non-empty bin. Naeini et al., AAAI 2015."""
        return np.asarray(np.abs(self._means).max(0))

    @property
    def rmsce(self) -> Floats:
        """Root mean squared gap [B]. Hendrycks et al., "Deep anomaly detection …", ICLR 2019, appendix."""
        return np.asarray(np.sqrt((self.rows * self._means**2).sum(0) / self.total))

    @property
    def _means(self) -> Floats:
        """Mean gap [M, B] of each bin; 0 for empty bins."""
        return np.divide(self.gaps, self.rows, out=np.zeros_like(self.gaps), where=self.rows > 0)


def adaptive_ece(confidences: Floats, right: Bools, bins: int = ECE_BINS, weights: Floats | None = None) -> Floats:
    """Compute the ECE [B] over equal-mass bins, with rows sorted by confidence (stable for ties).

    Nguyen and O'Connor, "Posterior calibration and exploratory analysis for natural language processing models", EMNLP
    2015. Of n rows the first n mod M bins have one row more than the others; with fewer rows than bins, the remaining
    bins are empty.

    A row with an integer weight stands for that many copies, which may fall into several bins. The copies share one
    gap, so the cumulative gap at a border between copies is interpolated linearly.

    Raises:
        ValueError: there are no rows.
    """
    order = np.argsort(confidences, kind="stable")
    weights = checked_weights(len(confidences), weights)[order]
    start = np.zeros((1, weights.shape[1]))
    rows = np.concatenate([start, weights.cumsum(0)])
    gaps = np.concatenate([start, (weights * (confidences - right)[order][:, None]).cumsum(0)])
    total = rows[-1]
    number = np.arange(bins + 1)[:, None]
    borders = number * (total // bins) + np.minimum(number, total % bins)
    sums = np.stack([np.interp(b, r, g) for b, r, g in zip(borders.T, rows.T, gaps.T, strict=True)], axis=1)
    return np.asarray(np.abs(np.diff(sums, axis=0)).sum(0) / total)


def official_adaptive_ece(confidences: Floats, right: Bools, bins: int = ECE_BINS) -> float:
    """Compute the adaptive ECE as the code of papers on calibration losses does, only to compare with their values.

    Bin edges are interpolated between sorted confidences, starting at the lowest one, and bins are open on the left.
    So the row with the lowest confidence is in no bin, and ties may leave bins empty: with few rows the value differs
    considerably from `adaptive_ece`.

    Raises:
        ValueError: there are no rows.
    """
    checked_weights(rows := len(confidences), None)
    edges = np.interp(np.linspace(0, rows, bins + 1), np.arange(rows), np.sort(confidences))
    index = np.searchsorted(edges, confidences, side="left") - 1
    inside = index >= 0
    gaps = np.bincount(index[inside], (confidences - right)[inside], minlength=bins)
    return float(np.abs(gaps).sum() / rows)
