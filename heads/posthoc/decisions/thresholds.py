"""Decision thresholds per class, tuned for a metric."""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.spec import Spec

POINTS = 41


class NoThresholds(Spec):
    """Predict the class with the largest probability."""

    kind: Literal["none"] = "none"


class CoordinateAscent(Spec):
    """Predict the class with the largest p / t, with thresholds t tuned class by class on the calibration rows.

    Each class in turn gets the best of 41 thresholds for the metric while the others are fixed (ties go to the one
    nearest to 1), for at most `passes` passes or until one changes nothing. Then log t of a class with n rows is
    multiplied by n / (n + shrink), so that few rows have little effect. Dividing by t is equivalent to a free logit
    adjustment per class.
    """

    tier = "experimental"

    kind: Literal["coordinate_ascent"] = "coordinate_ascent"
    metric: Literal["macro_f1_fg", "macro_f1", "balanced_accuracy", "accuracy"] = Field(
        default="macro_f1_fg", title="Decision thresholds: metric"
    )
    """Metric that is maximised; macro_f1_fg excludes background classes from the mean."""
    passes: int = Field(default=3, ge=1, le=20, title="Decision thresholds: maximum passes")
    """Maximum number of passes over all classes."""
    widest: float = Field(default=10.0, gt=1, le=1000, title="Decision thresholds: widest factor")
    """Range of the thresholds: from 1 / widest to widest, at 41 points with equal ratios."""
    shrink: float = Field(default=20.0, ge=0, le=1e6, title="Decision thresholds: shrinkage (rows)")
    """Number of rows at which a class's log threshold is halved; fewer rows shrink it more."""

    def fit(self, log_p: Tensor, labels: Tensor, weight: Tensor, background: Sequence[int] = ()) -> Tensor:
        """Fit log thresholds [C] float64 to log-probabilities [N, C], labels [N] and weights [N].

        Raises:
            ValueError: no row belongs to a class that the metric averages over.
        """
        exact, classes = log_p.double(), log_p.shape[1]
        step = 2 * math.log(self.widest) / (POINTS - 1)
        grid = (torch.arange(POINTS, dtype=torch.float64) - POINTS // 2) * step
        rows = torch.bincount(labels, minlength=classes).double()
        support = torch.bincount(labels, weight, minlength=classes)
        counted = _counted(self.metric, support, background)
        log_t = torch.zeros(classes, dtype=torch.float64)

        def best(own: int) -> Tensor:
            """Return the log threshold with the best metric, nearest to 0 among ties, or the current one if as good."""
            tried = torch.cat([log_t[own, None], grid])
            values = _metric(self.metric, *_counts(exact, log_t, own, tried, labels, weight), support, counted)
            if values.max() <= values[0] + 1e-12:
                return log_t[own]
            level = (values >= values.max() - 1e-12).nonzero().squeeze(1)
            return tried[level[tried[level].abs().argmin()]]

        order = [own for own in rows.argsort(descending=True, stable=True).tolist() if rows[own] > 0]
        for _ in range(self.passes):
            before = log_t.clone()
            for own in order:
                log_t[own] = best(own)
            if torch.equal(before, log_t):
                break
        return log_t * rows / (rows + self.shrink).clamp(min=1e-12)


def _counted(metric: str, support: Tensor, background: Sequence[int]) -> Tensor:
    """Return which classes a metric averages over, as bool [C]."""
    counted = support > 0
    if metric == "macro_f1_fg":
        counted[list(background)] = False
    if not counted.any():
        raise ValueError(
            f"Thresholds maximise {metric} on the calibration rows, but none of these rows belongs to a class that the "
            "metric averages over. Choose another posthoc.thresholds.metric, or a split with more calibration rows."
        )
    return counted


def _counts(
    log_p: Tensor, log_t: Tensor, own: int, tried: Tensor, labels: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the weight of correct and of predicted rows per class, each [G, C], for G thresholds of one class.

    A row is assigned to that class or to the best of the others. Rows are binned by their lead among the sorted
    thresholds, which counts all thresholds at once.
    """
    classes, points = log_p.shape[1], len(tried)
    others = log_p - log_t
    others[:, own] = -torch.inf
    rival_value, rival = others.max(1)
    lead = log_p[:, own] - rival_value
    lead = torch.where(log_p[:, own].isinf(), -torch.inf, lead)
    values, order = tried.sort()
    # The class wins if its lead exceeds the threshold, or at a tie if it comes first.
    below = torch.searchsorted(values, lead)
    upto = torch.searchsorted(values, lead, right=True)
    bucket = torch.where(own < rival, upto, below)

    def moved(weights: Tensor) -> Tensor:
        """Return the weight [G, C] of rows that the class takes from each rival at each threshold."""
        flat = torch.bincount(bucket * classes + rival, weights, minlength=(points + 1) * classes)
        return flat.view(points + 1, classes).flip(0).cumsum(0).flip(0)[1:]

    taken, hits = moved(weight), moved(weight * (labels == own))
    predicted = torch.bincount(rival, weight, minlength=classes) - taken
    predicted[:, own] = taken.sum(1)
    correct = weight * (labels == rival)
    right = torch.bincount(rival, correct, minlength=classes) - moved(correct)
    right[:, own] = hits.sum(1)
    back = order.argsort()
    return right[back], predicted[back]


def _metric(name: str, right: Tensor, predicted: Tensor, support: Tensor, counted: Tensor) -> Tensor:
    """Return the metric [G] of G candidates, over the counted classes."""
    if name == "accuracy":
        return right.sum(1) / support.sum()
    if name == "balanced_accuracy":
        return (right / support)[:, counted].mean(1)
    f1 = 2 * right / (support + predicted).clamp(min=torch.finfo(torch.float64).tiny)
    return f1[:, counted].mean(1)
