"""All calibration metrics of log-probabilities [N, C] and labels [N], in float64 (docs/calibration_metrics.md).

One implementation serves single values and the bootstrap: rows may have weights [N, B], such as their counts in B
resamples, and each metric then has shape [B].
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np
from torch import Tensor

from frostbench.training.metrics.bins import BinSums, Bools, Floats, Ints, adaptive_ece, checked_weights
from frostbench.training.metrics.per_class import ClassBins
from frostbench.training.metrics.selective import areas
from frostbench.training.metrics.smooth_ece import smooth_ece

TITLES: Mapping[str, str] = MappingProxyType(
    {
        "ece": "ECE",
        "ece_over": "O-ECE",
        "ece_under": "U-ECE",
        "aece": "adaptive ECE",
        "cece": "class-wise ECE",
        "smece": "smooth ECE",
        "mce": "MCE",
        "rmsce": "RMSCE",
        "nll": "NLL",
        "brier": "Brier",
        "brier_reliability": "Brier: reliability",
        "brier_resolution": "Brier: resolution",
        "brier_uncertainty": "Brier: uncertainty",
        "brier_within_variance": "Brier: within-bin variance",
        "brier_within_covariance": "Brier: within-bin covariance",
        "aurc": "AURC",
        "e_aurc": "E-AURC",
    }
)
"""The metrics of `measured` and their titles in tables."""
UNDIRECTED = ("brier_uncertainty", "brier_within_variance", "brier_within_covariance")
"""Metrics without a better direction: the uncertainty depends only on the labels, the other two on the bins."""
HIGHER_IS_BETTER: Mapping[str, bool] = MappingProxyType(
    {name: name == "brier_resolution" for name in TITLES if name not in UNDIRECTED}
)
"""Whether higher is better, for every metric with a better direction."""


@dataclass(frozen=True)
class Judged:
    """Log-probabilities [N, C] and labels [N] of N rows; -inf for untrained classes."""

    log_p: Floats
    labels: Ints

    @classmethod
    def of(cls, log_p: Tensor, labels: Tensor) -> "Judged":
        """Convert tensors to arrays: log_p to float64, labels as they are."""
        return cls(log_p.double().numpy(), labels.numpy())

    @property
    def is_number(self) -> bool:
        """Whether no value is NaN; the predictions of a diverged head cannot be evaluated."""
        return not bool(np.isnan(self.log_p).any())

    @cached_property
    def p(self) -> Floats:
        """Probabilities [N, C]."""
        return np.asarray(np.exp(self.log_p))

    @cached_property
    def predicted(self) -> Ints:
        """Predicted class [N]: the one with the highest probability, the first of ties."""
        return np.asarray(self.log_p.argmax(1))

    @cached_property
    def confidences(self) -> Floats:
        """Probability [N] of the predicted class."""
        return np.asarray(self.p.max(1))

    @cached_property
    def right(self) -> Bools:
        """Whether the predicted class is the label [N]."""
        return np.asarray(self.predicted == self.labels)

    @cached_property
    def own_log_p(self) -> Floats:
        """Log-probability [N] of the label."""
        return np.asarray(self.log_p[np.arange(len(self.labels)), self.labels])

    @cached_property
    def classes(self) -> ClassBins:
        """The probabilities of each class, sorted into bins."""
        return ClassBins(self.p, self.labels)


def measured(predictions: Judged, weights: Floats | None = None) -> dict[str, Floats]:
    """Compute every metric of TITLES as [B] for weights [N, B]; without weights, B is 1.

    The NLL excludes rows of untrained classes, and is NaN if no other rows are left.

    Raises:
        ValueError: there are no rows.
    """
    weights = checked_weights(len(predictions.labels), weights)
    bins = BinSums.of(predictions.confidences, predictions.right, weights=weights)
    classes = predictions.classes.sums(weights)
    parts = classes.brier_parts
    area, excess = areas(predictions.confidences, predictions.right, weights)
    return {
        "ece": bins.ece,
        "ece_over": bins.over,
        "ece_under": bins.under,
        "aece": adaptive_ece(predictions.confidences, predictions.right, weights=weights),
        "cece": classes.ece.mean(0),
        "smece": smooth_ece(predictions.confidences, predictions.right, weights),
        "mce": bins.mce,
        "rmsce": bins.rmsce,
        "nll": _nll(predictions.own_log_p, weights),
        "brier": (classes.squares - 2 * classes.right) / classes.total + 1,
        **{f"brier_{name}": part for name, part in parts.items()},
        "aurc": area,
        "e_aurc": excess,
    }


def calibration_metrics(log_p: Tensor, labels: Tensor) -> dict[str, float | None]:
    """Compute every metric of TITLES, and `brier_mean`, the Brier score divided by the number of classes.

    The NLL is None if no row belongs to a trained class, and all metrics are None if a log-probability is NaN.

    Args:
        log_p: log-probabilities [N, C]; -inf for untrained classes.
        labels: class indices [N].

    Raises:
        ValueError: there are no rows.
    """
    predictions = Judged.of(log_p, labels)
    if not predictions.is_number:
        return dict.fromkeys((*TITLES, "brier_mean"))
    metrics = {name: float(values[0]) for name, values in measured(predictions).items()}
    metrics["brier_mean"] = metrics["brier"] / log_p.shape[1]
    return {name: None if np.isnan(value) else value for name, value in metrics.items()}


def _nll(label_log_p: Floats, weights: Floats) -> Floats:
    finite = np.isfinite(label_log_p)
    rows = weights[finite].sum(0)
    sums = -label_log_p[finite] @ weights[finite]
    return np.asarray(np.divide(sums, rows, out=np.full(len(rows), np.nan), where=rows > 0))
