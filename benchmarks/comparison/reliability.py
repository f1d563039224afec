"""Reliability: accuracy by bin of confidence."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from frostbench.benchmarks.comparison.frame import Bools, Floats
from frostbench.training.metrics.classification import ECE_BINS


@dataclass(frozen=True)
class Bins:
    """Non-empty bins of confidence, of equal width and closed on the right.

    Attributes:
        place: index of each bin, from 0.
        rows: number of rows in each bin.
        confidence: mean confidence in each bin.
        accuracy: fraction of correct rows in each bin.
        of: total number of bins.
    """

    place: tuple[int, ...]
    rows: tuple[int, ...]
    confidence: tuple[float, ...]
    accuracy: tuple[float, ...]
    of: int

    @property
    def ece(self) -> float:
        """Expected calibration error: the mean gap between confidence and accuracy, weighted by rows; NaN without rows.

        Guo et al., "On calibration of modern neural networks", ICML 2017, equation 5.
        """
        gaps = np.abs(np.subtract(self.confidence, self.accuracy))
        return float(np.average(gaps, weights=self.rows)) if self.rows else float("nan")


def bins_of(confidence: Floats | Sequence[float], right: Bools | Sequence[bool], of: int = ECE_BINS) -> Bins:
    """Sort rows into bins, ignoring rows whose confidence is not finite.

    >>> bins_of([0.2, 0.3, 0.9], [False, True, True], of=2)
    Bins(place=(0, 1), rows=(2, 1), confidence=(0.25, 0.9), accuracy=(0.5, 1.0), of=2)
    """
    values, correct = np.asarray(confidence, dtype=np.float64), np.asarray(right, dtype=np.float64)
    finite = np.isfinite(values)
    values, correct = values[finite], correct[finite]
    place = np.clip(np.ceil(values * of).astype(np.int64) - 1, 0, of - 1)
    count = np.bincount(place, minlength=of)
    used = np.flatnonzero(count)
    means = (np.bincount(place, column, of)[used] / count[used] for column in (values, correct))
    shown = [tuple(column.tolist()) for column in (used, count[used], *means)]
    return Bins(shown[0], shown[1], shown[2], shown[3], of)
