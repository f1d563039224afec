"""Calibration errors over bins: the gap between confidence [N] and being right [N], in equal or equally full bins.

Rows may have weights [N, B], such as how often each came up in B resamples; every value is then one for each of them.
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


def one_each(rows: int, weights: Floats | None) -> Floats:
    """Weights [N, B]; where none are given each row counts once, and B is 1.

    Raises:
        ValueError: there are no rows.
    """
    if rows == 0:
        raise ValueError("calibration is measured on one row or more, however: none came. Check the split.")
    return np.ones((rows, 1)) if weights is None else weights


def bin_of(values: Floats, bins: int = ECE_BINS) -> Ints:
    """Number of the equal bin of [0, 1] that holds each value, closed on the right; the first also holds 0.

    >>> bin_of(np.array([0.0, 0.25, 0.26, 1.0]), bins=4)
    array([0, 0, 1, 3])
    """
    return np.clip(np.ceil(values * bins).astype(np.int64) - 1, 0, bins - 1)


def sums_by(place: Ints, places: int, weights: Floats) -> Floats:
    """Sums [places, B] of weights [N, B] by the place of each row [N]."""
    return np.asarray(placed(place, places) @ weights)


def placed(place: Ints, places: int) -> Any:
    """Sparse [places, N] that sums the rows of an array by their place [N]."""
    rows = len(place)
    return coo_array((np.ones(rows), (place, np.arange(rows))), shape=(places, rows)).tocsr()


@dataclass(frozen=True)
class BinSums:
    """What falls into each of M bins of confidence, for each of B weightings of the rows.

    Attributes:
        rows: [M, B] rows.
        gaps: [M, B] sums of confidence less 1 where the prediction was right, and less 0 where it was wrong.
    """

    rows: Floats
    gaps: Floats

    @classmethod
    def of(cls, confidences: Floats, right: Bools, bins: int = ECE_BINS, weights: Floats | None = None) -> "BinSums":
        """Sort rows into equal bins, closed on the right.

        Raises:
            ValueError: there are no rows.
        """
        each, place = one_each(len(confidences), weights), bin_of(confidences, bins)
        return cls(sums_by(place, bins, each), sums_by(place, bins, each * (confidences - right)[:, None]))

    @property
    def total(self) -> Floats:
        """[B] all rows."""
        return np.asarray(self.rows.sum(0))

    @property
    def ece(self) -> Floats:
        """Expected calibration error [B]: the mean size of the gap. Naeini et al., AAAI 2015."""
        return np.asarray(np.abs(self.gaps).sum(0) / self.total)

    @property
    def over(self) -> Floats:
        """The part of the ECE [B] that lies in bins with more confidence than accuracy."""
        return np.asarray(np.maximum(self.gaps, 0).sum(0) / self.total)

    @property
    def under(self) -> Floats:
        """The part of the ECE [B] that lies in bins with less confidence than accuracy; both parts sum to it."""
        return np.asarray(np.maximum(-self.gaps, 0).sum(0) / self.total)

    @property
    def mce(self) -> Floats:
        """Maximum calibration error [B]: the largest gap of a bin that has rows. Naeini et al., AAAI 2015."""
        return np.asarray(np.abs(self._means).max(0))

    @property
    def rmsce(self) -> Floats:
        """Root of the mean squared gap [B]. Hendrycks et al., "Deep anomaly detection …", ICLR 2019, appendix."""
        return np.asarray(np.sqrt((self.rows * self._means**2).sum(0) / self.total))

    @property
    def _means(self) -> Floats:
        """[M, B] mean gap of each bin, 0 where it has no rows."""
        return np.divide(self.gaps, self.rows, out=np.zeros_like(self.gaps), where=self.rows > 0)


def adaptive_ece(confidences: Floats, right: Bools, bins: int = ECE_BINS, weights: Floats | None = None) -> Floats:
    """ECE [B] over bins of equally many rows, ordered by confidence and, among equal ones, by place.

    Nguyen and O'Connor, "Posterior calibration and exploratory analysis for natural language processing models", EMNLP
    2015. Of n rows the first n mod M bins have one row more than the others; where there are fewer rows than bins, the
    rest of the bins stays empty.

    A row with a whole weight stands for that many copies, which may fall into two bins. They share one gap, so the sum
    of gaps up to a border between copies is linear between those up to whole rows.

    Raises:
        ValueError: there are no rows.
    """
    order = np.argsort(confidences, kind="stable")
    each = one_each(len(confidences), weights)[order]
    start = np.zeros((1, each.shape[1]))
    rows = np.concatenate([start, each.cumsum(0)])
    gaps = np.concatenate([start, (each * (confidences - right)[order][:, None]).cumsum(0)])
    total = rows[-1]
    number = np.arange(bins + 1)[:, None]
    borders = number * (total // bins) + np.minimum(number, total % bins)
    sums = np.stack([np.interp(b, r, g) for b, r, g in zip(borders.T, rows.T, gaps.T, strict=True)], axis=1)
    return np.asarray(np.abs(np.diff(sums, axis=0)).sum(0) / total)


def official_adaptive_ece(confidences: Floats, right: Bools, bins: int = ECE_BINS) -> float:
    """Adaptive ECE as papers of losses for calibration computed it: only to set a figure beside theirs.

    Bin edges are interpolated between sorted confidences, the first is the lowest confidence, and a bin holds what lies
    above its lower edge. So the row with the lowest confidence is in no bin, and among ties bins may be empty: with few
    rows the value differs much from `adaptive_ece`.

    Raises:
        ValueError: there are no rows.
    """
    one_each(rows := len(confidences), None)
    edges = np.interp(np.linspace(0, rows, bins + 1), np.arange(rows), np.sort(confidences))
    place = np.searchsorted(edges, confidences, side="left") - 1
    inside = place >= 0
    gaps = np.bincount(place[inside], (confidences - right)[inside], minlength=bins)
    return float(np.abs(gaps).sum() / rows)
