"""Whether a head is as often right as its confidence says: accuracy by bin of confidence."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frostbench.training.metrics.classification import ECE_BINS

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Bins:
    """Equal bins of confidence, closed on the right; only those with rows.

    Attributes:
        place: number of each bin, from 0.
        rows: how many fall into it.
        confidence: their mean confidence.
        accuracy: the share of them that is right.
        of: how many bins there are in all.
    """

    place: tuple[int, ...]
    rows: tuple[int, ...]
    confidence: tuple[float, ...]
    accuracy: tuple[float, ...]
    of: int

    @property
    def ece(self) -> float:
        """Expected calibration error: the mean gap between confidence and accuracy; NaN without rows.

        Guo et al., "On calibration of modern neural networks", ICML 2017, equation 5.
        """
        gaps = np.abs(np.subtract(self.confidence, self.accuracy))
        return float(np.average(gaps, weights=self.rows)) if self.rows else float("nan")


def bins_of(confidence: Floats | Sequence[float], right: Bools | Sequence[bool], of: int = ECE_BINS) -> Bins:
    """Sort rows into bins; a confidence that is not finite is left out.

    >>> bins_of([0.2, 0.3, 0.9], [False, True, True], of=2)
    Bins(place=(0, 1), rows=(2, 1), confidence=(0.25, 0.9), accuracy=(0.5, 1.0), of=2)
    """
    sure, correct = np.asarray(confidence, dtype=np.float64), np.asarray(right, dtype=np.float64)
    known = np.isfinite(sure)
    sure, correct = sure[known], correct[known]
    place = np.clip(np.ceil(sure * of).astype(np.int64) - 1, 0, of - 1)
    count = np.bincount(place, minlength=of)
    used = np.flatnonzero(count)
    means = (np.bincount(place, values, of)[used] / count[used] for values in (sure, correct))
    shown = [tuple(values.tolist()) for values in (used, count[used], *means)]
    return Bins(shown[0], shown[1], shown[2], shown[3], of)
