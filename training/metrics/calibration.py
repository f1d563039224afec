"""Every calibration metric of log-probabilities [N, C] and labels [N], in float64 (docs/calibration_metrics.md).

One implementation serves a single value and the bootstrap: rows may have weights [N, B], such as how often each came up
in B resamples, and each metric is then [B].
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np
from torch import Tensor

from frostbench.training.metrics.bins import BinSums, Bools, Floats, Ints, adaptive_ece, one_each
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
"""The metrics of `measured`, and what tables call them."""
UNDIRECTED = ("brier_uncertainty", "brier_within_variance", "brier_within_covariance")
"""Metrics without a better side: the uncertainty is that of the labels, and the bins decide on the other two."""
HIGHER_IS_BETTER: Mapping[str, bool] = MappingProxyType(
    {name: name == "brier_resolution" for name in TITLES if name not in UNDIRECTED}
)
"""Which way is better, for every metric that has a better side."""


@dataclass(frozen=True)
class Judged:
    """Log-probabilities [N, C] of N rows with their labels [N]; -inf for classes that were never trained."""

    log_p: Floats
    labels: Ints

    @classmethod
    def of(cls, log_p: Tensor, labels: Tensor) -> "Judged":
        """From tensors, in float64."""
        return cls(log_p.double().numpy(), labels.numpy())

    @property
    def is_number(self) -> bool:
        """Whether no value is NaN; a head that diverged says nothing that could be measured."""
        return not bool(np.isnan(self.log_p).any())

    @cached_property
    def p(self) -> Floats:
        """[N, C] probabilities."""
        return np.asarray(np.exp(self.log_p))

    @cached_property
    def predicted(self) -> Ints:
        """[N] the class with the largest probability, the first among equals."""
        return np.asarray(self.log_p.argmax(1))

    @cached_property
    def confidences(self) -> Floats:
        """[N] probability of the predicted class."""
        return np.asarray(self.p.max(1))

    @cached_property
    def right(self) -> Bools:
        """[N] whether the predicted class is the label."""
        return np.asarray(self.predicted == self.labels)

    @cached_property
    def own_log_p(self) -> Floats:
        """[N] log-probability of the label."""
        return np.asarray(self.log_p[np.arange(len(self.labels)), self.labels])

    @cached_property
    def classes(self) -> ClassBins:
        """The probabilities of each class, in bins."""
        return ClassBins(self.p, self.labels)


def measured(judged: Judged, weights: Floats | None = None) -> dict[str, Floats]:
    """Every metric of TITLES, each [B], under weights [N, B]; without any, each row counts once and B is 1.

    The NLL leaves out rows whose class was never trained, and is NaN where no other is left.

    Raises:
        ValueError: there are no rows.
    """
    each = one_each(len(judged.labels), weights)
    bins = BinSums.of(judged.confidences, judged.right, weights=each)
    classes = judged.classes.sums(each)
    parts = classes.brier_parts
    area, excess = areas(judged.confidences, judged.right, each)
    return {
        "ece": bins.ece,
        "ece_over": bins.over,
        "ece_under": bins.under,
        "aece": adaptive_ece(judged.confidences, judged.right, weights=each),
        "cece": classes.ece.mean(0),
        "smece": smooth_ece(judged.confidences, judged.right, each),
        "mce": bins.mce,
        "rmsce": bins.rmsce,
        "nll": _nll(judged.own_log_p, each),
        "brier": (classes.squares - 2 * classes.right) / classes.total + 1,
        **{f"brier_{name}": part for name, part in parts.items()},
        "aurc": area,
        "e_aurc": excess,
    }


def calibration_metrics(log_p: Tensor, labels: Tensor) -> dict[str, float | None]:
    """Every metric of TITLES, and `brier_mean`, the Brier score divided by the number of classes.

    None where there is no value: the NLL where no row is of a trained class, and all of them where NaN came.

    Args:
        log_p: log-probabilities [N, C]; -inf for classes that were never trained.
        labels: class indices [N].

    Raises:
        ValueError: there are no rows.
    """
    judged = Judged.of(log_p, labels)
    if not judged.is_number:
        return dict.fromkeys((*TITLES, "brier_mean"))
    found = {name: float(values[0]) for name, values in measured(judged).items()}
    found["brier_mean"] = found["brier"] / log_p.shape[1]
    return {name: None if np.isnan(value) else value for name, value in found.items()}


def _nll(own: Floats, weights: Floats) -> Floats:
    finite = np.isfinite(own)
    rows = weights[finite].sum(0)
    sums = -own[finite] @ weights[finite]
    return np.asarray(np.divide(sums, rows, out=np.full(len(rows), np.nan), where=rows > 0))
