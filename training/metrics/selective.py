"""Selective prediction: risk-coverage curves of predictions sorted by confidence, and the areas under them.

Geifman and El-Yaniv, "Selective classification for deep neural networks", NeurIPS 2017; Geifman et al., "Bias-reduced
uncertainty estimation for deep neural classifiers", ICLR 2019, for the areas.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma

from frostbench.training.metrics.bins import Bools, Floats, Ints, checked_weights


@dataclass(frozen=True)
class RiskCoverage:
    """Risk and coverage of predictions above a confidence threshold, with one point per distinct confidence.

    Attributes:
        threshold: minimum confidence [P], descending.
        coverage: share [P] of rows that are predicted, up to 1.
        risk: share [P] of the predicted rows that are wrong.
    """

    threshold: Floats
    coverage: Floats
    risk: Floats

    def risk_at(self, coverage: float) -> float:
        """Return the risk at the lowest coverage on the curve that is at least this one.

        >>> curve = risk_coverage(np.array([0.9, 0.8, 0.7, 0.6]), np.array([True, True, False, True]))
        >>> curve.risk_at(0.5), curve.risk_at(1.0)
        (0.0, 0.25)
        """
        index = int(np.searchsorted(self.coverage, coverage - 1e-12))
        return float(self.risk[min(index, len(self.risk) - 1)])


def risk_coverage(confidences: Floats, right: Bools) -> RiskCoverage:
    """Compute the risk-coverage curve; rows with the same confidence enter together.

    Raises:
        ValueError: there are no rows.
    """
    checked_weights(len(confidences), None)
    order, last = _order(confidences)
    wrong = (~right[order]).cumsum()[last]
    rows = last + 1.0
    return RiskCoverage(confidences[order][last], rows / len(confidences), wrong / rows)


def areas(confidences: Floats, right: Bools, weights: Floats | None = None) -> tuple[Floats, Floats]:
    """Compute AURC and E-AURC, each [B]: the mean risk over coverages, and its excess over that of the best order.

    Rows with the same confidence enter together and all count with the risk after them, so the areas do not depend on
    the order of the rows. The best order has all m errors of n rows last; its mean risk is
    (1/n) sum over j = 1 … m of j / (n - m + j), which is (m - (n - m) (H_n - H_(n-m))) / n with harmonic numbers H.

    Raises:
        ValueError: there are no rows.
    """
    order, last = _order(confidences)
    weights = checked_weights(len(confidences), weights)[order]
    rows = weights.cumsum(0)[last]
    wrong = (weights * ~right[order][:, None]).cumsum(0)[last]
    joined = np.diff(rows, axis=0, prepend=0.0)
    n, m = rows[-1], wrong[-1]
    risk = np.divide(wrong, rows, out=np.zeros_like(rows), where=rows > 0)
    area = (joined * risk).sum(0) / n
    best = (m - (n - m) * (digamma(n + 1) - digamma(n - m + 1))) / n
    return np.asarray(area), np.asarray(area - best)


def _order(confidences: Floats) -> tuple[Ints, Ints]:
    """Return the order by descending confidence, and the last position in it of each distinct confidence."""
    order = np.argsort(-confidences, kind="stable")
    is_last = np.append(np.diff(confidences[order]) != 0, True)
    return order, np.flatnonzero(is_last)
