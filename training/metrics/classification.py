"""Classification metrics of log-probabilities [N, C] or predicted classes [N] against labels [N]."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from frostbench.training.metrics.counts import class_sets, f1, precision, recall

ECE_BINS = 15
METRIC_DECIMALS, NLL_DECIMALS = 9, 6
"""Decimals to which metrics, and the NLL that breaks ties, are compared when something is chosen."""


@dataclass(frozen=True)
class PerClass:
    """Metrics per class, each [C]; precision, recall and F1 are 0 if their denominator is 0.

    Attributes:
        support: number of rows of the class.
        predicted: number of rows predicted as the class.
        precision: share of the rows predicted as the class that belong to it.
        recall: share of the rows of the class that are predicted as it.
        f1: harmonic mean of precision and recall.
    """

    support: Tensor
    predicted: Tensor
    precision: Tensor
    recall: Tensor
    f1: Tensor


def confusion(labels: Tensor, predicted: Tensor, classes: int) -> Tensor:
    """Return the confusion matrix [C, C] int64, with labels as rows and predictions as columns.

    >>> confusion(torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), 2)
    tensor([[1, 0],
            [1, 1]])
    """
    return torch.bincount(labels * classes + predicted, minlength=classes * classes).view(classes, classes)


def per_class(table: Tensor) -> PerClass:
    """Compute precision, recall and F1 of each class from a confusion matrix [C, C]."""
    right, support, predicted = table.diagonal().double(), table.sum(1), table.sum(0)
    scores = precision(right, predicted), recall(right, support), f1(right, support, predicted)
    return PerClass(support, predicted, *scores)


def decision_metrics(
    labels: Tensor, predicted: Tensor, train_counts: Tensor, background: Sequence[int] = ()
) -> dict[str, float | None]:
    """Compute metrics of predicted classes [N] against labels [N]; None if a metric has no class to average over.

    Foreground metrics average over the foreground classes with rows, but are computed on all rows, so that a
    background row predicted as a foreground class lowers the precision of that class. `macro_f1_fg_all` also includes
    foreground classes that have only training rows.

    Args:
        labels: class indices [N].
        predicted: class indices [N].
        train_counts: training rows per class [C], which define the many-, medium- and few-shot classes.
        background: class indices excluded from the foreground.

    Raises:
        ValueError: there are no rows.
    """
    if len(labels) == 0:
        raise ValueError("Metrics need at least one row, got none. Check the split.")
    classes = len(train_counts)
    scores = per_class(confusion(labels, predicted, classes))
    sets = class_sets(scores.support, train_counts, background)
    fg, seen = sets["fg"], sets["seen"]
    weight = scores.support * fg
    return {
        "macro_f1_fg": _mean(scores.f1, fg),
        "macro_f1_fg_all": _mean(scores.f1, sets["fg_known"]),
        "weighted_f1_fg": float((scores.f1 * weight).sum() / weight.sum()) if fg.any() else None,
        "macro_precision_fg": _mean(scores.precision, fg),
        "macro_recall_fg": _mean(scores.recall, fg),
        "accuracy": float((labels == predicted).double().mean()),
        "balanced_accuracy": _mean(scores.recall, seen),
        "recall_many": _mean(scores.recall, sets["many"]),
        "recall_medium": _mean(scores.recall, sets["medium"]),
        "recall_few": _mean(scores.recall, sets["few"]),
        "n_fg_evaluated": float(fg.sum()),
    }


def probability_metrics(log_p: Tensor, labels: Tensor, predicted: Tensor | None = None) -> dict[str, float | None]:
    """Compute NLL, Brier score and ECE of log-probabilities [N, C] against labels [N].

    Rows of untrained classes have probability 0 and no finite likelihood: the NLL excludes them, and `n_untrained`
    counts them.
    """
    label_log_p = log_p.double().gather(1, labels[:, None]).squeeze(1)
    finite = label_log_p.isfinite()
    return {
        "nll": float(-label_log_p[finite].mean()) if finite.any() else None,
        "brier": float(brier(log_p, labels).mean()),
        "ece": expected_calibration_error(*confidence(log_p, labels, predicted)),
        "n_untrained": float((~finite).sum()),
    }


def brier(log_p: Tensor, labels: Tensor) -> Tensor:
    """Compute the Brier score of each row [N]: squared distance of the probabilities [N, C] to the one-hot label.

    Brier, "Verification of forecasts expressed in terms of probability", 1950; from 0 to 2.
    """
    p = log_p.double().exp()
    label_p = p.gather(1, labels[:, None]).squeeze(1)
    return p.square().sum(1) - label_p.square() + (1 - label_p).square()


def confidence(log_p: Tensor, labels: Tensor, predicted: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the confidence [N] of the predicted class and whether it is correct [N], both float64.

    Without predicted classes [N], the most probable class is predicted.
    """
    predicted = log_p.argmax(1) if predicted is None else predicted
    predicted_log_p = log_p.double().gather(1, predicted[:, None]).squeeze(1)
    return predicted_log_p.exp(), (predicted == labels).double()


def confidence_bin(confidences: Tensor, bins: int = ECE_BINS) -> Tensor:
    """Return the index [N] of each confidence's equal-width bin, closed on the right."""
    return ((confidences * bins).ceil().long() - 1).clamp(0, bins - 1)


def expected_calibration_error(confidences: Tensor, right: Tensor, bins: int = ECE_BINS) -> float:
    """Compute the row-weighted mean gap between confidence [N] and accuracy over equal-width bins closed on the right.

    Naeini et al., "Obtaining well calibrated probabilities using Bayesian binning", AAAI 2015.

    >>> sure = torch.tensor([0.95, 0.9, 0.85, 0.6, 0.55, 0.3], dtype=torch.float64)
    >>> round(expected_calibration_error(sure, torch.tensor([1.0, 1, 0, 1, 0, 0]).double(), bins=5), 10)
    0.1916666667
    """
    gap = torch.zeros(bins, dtype=torch.float64)
    gap.index_add_(0, confidence_bin(confidences, bins), confidences - right)
    return float(gap.abs().sum() / len(confidences))


def all_metrics(
    log_p: Tensor,
    labels: Tensor,
    train_counts: Tensor,
    background: Sequence[int] = (),
    predicted: Tensor | None = None,
) -> dict[str, float | None]:
    """Compute decision and probability metrics of log-probabilities [N, C] against labels [N].

    Without predicted classes [N], the most probable class is predicted.
    """
    predicted = log_p.argmax(1) if predicted is None else predicted
    decisions = decision_metrics(labels, predicted, train_counts, background)
    return decisions | probability_metrics(log_p, labels, predicted)


def to_raise(metrics: Mapping[str, float | None], name: str) -> float:
    """Return a metric as a number for which higher is better.

    Raises:
        ValueError: no row belongs to a class that the metric counts.
    """
    value = metrics[name]
    if value is None:
        raise ValueError(
            f"Choices by {name} need validation rows of a class that it counts, but there are none. Choose another "
            "train.early_stop.metric, or a split with more validation rows."
        )
    return -value if name == "nll" else value


Preference = tuple[float, float]
"""Sort key of epochs or settings, of which the highest is best: the metric, with the negative NLL as tie-breaker."""
NOTHING: Preference = (-math.inf, -math.inf)
"""The lowest preference."""


def preference(metrics: Mapping[str, float | None], name: str) -> Preference:
    """Return the preference of these metrics for choices by the metric of this name, with the NLL as tie-breaker.

    A head may predict every row correctly long before its probabilities are good; without the tie-breaker, the first
    such epoch would be kept.

    >>> late, early = {"accuracy": 1.0, "nll": 0.1}, {"accuracy": 1.0, "nll": 3.0}
    >>> preference(late, "accuracy") > preference(early, "accuracy")
    True

    Raises:
        ValueError: no row belongs to a class that the metric counts.
    """
    return preferred(to_raise(metrics, name), metrics["nll"])


def preferred(value: float, nll: float | None) -> Preference:
    """Return the preference of a value for which higher is better; `nll` is None if no row has a finite one."""
    # Rounded because means summed in another order differ slightly, and because an NLL may decrease forever.
    return round(value, METRIC_DECIMALS), -math.inf if nll is None or math.isnan(nll) else round(-nll, NLL_DECIMALS)


def _mean(values: Tensor, chosen: Tensor) -> float | None:
    return float(values[chosen].double().mean()) if chosen.any() else None
