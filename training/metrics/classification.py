"""Metrics: pure functions of log-probabilities [N, C], or of predicted classes [N], and labels [N]."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from frostbench.training.metrics.counts import class_sets, f1, precision, recall

ECE_BINS = 15
METRIC_DECIMALS, NLL_DECIMALS = 9, 6
"""Decimals to which a metric, and the NLL that decides where it ties, are compared where something is chosen."""


@dataclass(frozen=True)
class PerClass:
    """One value per class, each [C]; precision, recall and F1 are 0 where their denominator is.

    Attributes:
        support: rows of the class.
        predicted: rows predicted as the class.
        precision: right among the predicted.
        recall: right among the rows of the class.
        f1: harmonic mean of precision and recall.
    """

    support: Tensor
    predicted: Tensor
    precision: Tensor
    recall: Tensor
    f1: Tensor


def confusion(labels: Tensor, predicted: Tensor, classes: int) -> Tensor:
    """Counts [C, C] int64: row is the label, column the prediction.

    >>> confusion(torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), 2)
    tensor([[1, 0],
            [1, 1]])
    """
    return torch.bincount(labels * classes + predicted, minlength=classes * classes).view(classes, classes)


def per_class(table: Tensor) -> PerClass:
    """Precision, recall and F1 of each class from a confusion matrix [C, C]."""
    right, support, predicted = table.diagonal().double(), table.sum(1), table.sum(0)
    scores = precision(right, predicted), recall(right, support), f1(right, support, predicted)
    return PerClass(support, predicted, *scores)


def decision_metrics(
    labels: Tensor, predicted: Tensor, train_counts: Tensor, background: Sequence[int] = ()
) -> dict[str, float | None]:
    """Metrics of predicted classes [N] against labels [N]; None where a metric has no class to average.

    Foreground metrics average over the foreground classes with rows, on all rows, so that a background row that is
    taken for a foreground class counts against that class. `macro_f1_fg_all` also averages over foreground classes
    that have training rows only.

    Args:
        labels: class indices [N].
        predicted: class indices [N].
        train_counts: training rows per class [C]; they decide which classes are many, medium and few.
        background: class indices left out of the foreground.

    Raises:
        ValueError: there are no rows.
    """
    if len(labels) == 0:
        raise ValueError("metrics need at least one row, however: none came. Check the split.")
    classes = len(train_counts)
    each = per_class(confusion(labels, predicted, classes))
    chosen = class_sets(each.support, train_counts, background)
    fg, seen = chosen["fg"], chosen["seen"]
    weight = each.support * fg
    return {
        "macro_f1_fg": _mean(each.f1, fg),
        "macro_f1_fg_all": _mean(each.f1, chosen["fg_known"]),
        "weighted_f1_fg": float((each.f1 * weight).sum() / weight.sum()) if fg.any() else None,
        "macro_precision_fg": _mean(each.precision, fg),
        "macro_recall_fg": _mean(each.recall, fg),
        "accuracy": float((labels == predicted).double().mean()),
        "balanced_accuracy": _mean(each.recall, seen),
        "recall_many": _mean(each.recall, chosen["many"]),
        "recall_medium": _mean(each.recall, chosen["medium"]),
        "recall_few": _mean(each.recall, chosen["few"]),
        "n_fg_evaluated": float(fg.sum()),
    }


def probability_metrics(log_p: Tensor, labels: Tensor, predicted: Tensor | None = None) -> dict[str, float | None]:
    """NLL, Brier score and ECE of log-probabilities [N, C] against labels [N].

    Rows whose class has probability 0 because it was never trained have no finite likelihood: the NLL leaves them
    out and `n_untrained` counts them.
    """
    own = log_p.double().gather(1, labels[:, None]).squeeze(1)
    finite = own.isfinite()
    return {
        "nll": float(-own[finite].mean()) if finite.any() else None,
        "brier": float(brier(log_p, labels).mean()),
        "ece": expected_calibration_error(*confidence(log_p, labels, predicted)),
        "n_untrained": float((~finite).sum()),
    }


def brier(log_p: Tensor, labels: Tensor) -> Tensor:
    """Brier score of each row [N]: squared distance of the probabilities [N, C] to the one-hot label.

    Brier, "Verification of forecasts expressed in terms of probability", 1950; from 0 to 2.
    """
    p = log_p.double().exp()
    own = p.gather(1, labels[:, None]).squeeze(1)
    return p.square().sum(1) - own.square() + (1 - own).square()


def confidence(log_p: Tensor, labels: Tensor, predicted: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Confidence [N] of the predicted class and whether it is right [N], both float64.

    The class with the largest probability is predicted where no other classes [N] came.
    """
    chosen = log_p.argmax(1) if predicted is None else predicted
    own = log_p.double().gather(1, chosen[:, None]).squeeze(1)
    return own.exp(), (chosen == labels).double()


def confidence_bin(confidences: Tensor, bins: int = ECE_BINS) -> Tensor:
    """Index [N] of the equal-width bin, closed on the right, that holds each confidence [N]."""
    return ((confidences * bins).ceil().long() - 1).clamp(0, bins - 1)


def expected_calibration_error(confidences: Tensor, right: Tensor, bins: int = ECE_BINS) -> float:
    """Mean gap of confidence [N] and accuracy, over equal-width bins closed on the right, weighted by their rows.

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
    """Decision and probability metrics of log-probabilities [N, C] against labels [N].

    The class with the largest probability is predicted where no other classes [N] came.
    """
    chosen = log_p.argmax(1) if predicted is None else predicted
    decided = decision_metrics(labels, chosen, train_counts, background)
    return decided | probability_metrics(log_p, labels, predicted)


def to_raise(metrics: Mapping[str, float | None], name: str) -> float:
    """The metric that decides, as a number to be raised.

    Raises:
        ValueError: no row belongs to a class that it counts.
    """
    found = metrics[name]
    if found is None:
        raise ValueError(
            f"choices are made by {name} of the selection rows, however: none of them belongs to a class it counts. "
            "Choose another train.early_stop.metric, or a split with more selection rows."
        )
    return -found if name == "nll" else found


Preference = tuple[float, float]
"""What decides between epochs or settings, to be raised: the metric, and where it ties minus the NLL."""
NOTHING: Preference = (-math.inf, -math.inf)
"""What everything is preferred to."""


def preference(metrics: Mapping[str, float | None], name: str) -> Preference:
    """What decides where choices are made by the metric of that name: of those that tie, the one of lower NLL wins.

    A head may be right about every row long before its probabilities are any good; the first epoch at which it is
    would be kept, were the NLL not asked.

    >>> late, early = {"accuracy": 1.0, "nll": 0.1}, {"accuracy": 1.0, "nll": 3.0}
    >>> preference(late, "accuracy") > preference(early, "accuracy")
    True

    Raises:
        ValueError: no row belongs to a class that the metric counts.
    """
    return preferred(to_raise(metrics, name), metrics["nll"])


def preferred(value: float, nll: float | None) -> Preference:
    """The preference for a value to be raised with that NLL, None where no row has a finite one."""
    # Means of the same shares in another order differ by rounding, and an NLL may creep down for ever: no difference.
    return round(value, METRIC_DECIMALS), -math.inf if nll is None or math.isnan(nll) else round(-nll, NLL_DECIMALS)


def _mean(values: Tensor, chosen: Tensor) -> float | None:
    return float(values[chosen].double().mean()) if chosen.any() else None
