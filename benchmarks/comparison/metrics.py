"""The metrics that are compared, computed from sums over the rows of each resample."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from frostbench.benchmarks.comparison.frame import Bools, Floats, Frame
from frostbench.training.metrics.counts import f1, precision, recall

HIGHER_IS_BETTER = {
    "macro_f1_fg": True,
    "weighted_f1_fg": True,
    "macro_precision_fg": True,
    "macro_recall_fg": True,
    "accuracy": True,
    "balanced_accuracy": True,
    "recall_many": True,
    "recall_medium": True,
    "recall_few": True,
    "nll": False,
    "brier": False,
    "ece": False,
}
"""Direction of every compared metric."""
MAIN = "macro_f1_fg"


@dataclass(frozen=True)
class Sums:
    """Sums for one run over the rows of each of B resamples.

    Attributes:
        support: [C, B] rows by label.
        rows: [B] all rows.
        right: [C, B] correct predictions by label.
        predicted: [C, B] rows by predicted class.
        finite: [B] rows whose label has training rows.
        nll: [B] negative log-probabilities of those rows.
        brier: [B] Brier scores.
        gaps: [bins, B] confidence minus correctness, by confidence bin.
    """

    support: Floats
    rows: Floats
    right: Floats
    predicted: Floats
    finite: Floats
    nll: Floats
    brier: Floats
    gaps: Floats

    @cached_property
    def f1(self) -> Floats:
        """F1 of each class, [C, B]; 0 if the resample has neither labels nor predictions of the class."""
        return f1(self.right, self.support, self.predicted)

    @cached_property
    def recall(self) -> Floats:
        """Recall of each class, [C, B]; 0 if the resample has no rows of the class."""
        return recall(self.right, self.support)


def metrics_of(frame: Frame, sums: Sums) -> dict[str, Floats]:
    """Compute every metric on each resample, [B]; metrics without any class or row to average are omitted.

    Macro averages always cover the same classes: one that is absent from a resample counts as 0, for every run.
    """
    classes, fg = frame.classes, frame.classes["fg"]
    support = sums.support[fg]
    precisions = precision(sums.right[fg], sums.predicted[fg])
    metrics = {
        "macro_f1_fg": _mean(sums.f1, fg),
        "weighted_f1_fg": (sums.f1[fg] * support).sum(0) / np.maximum(support.sum(0), 1) if fg.any() else None,
        "macro_precision_fg": _mean(precisions, np.ones(len(precisions), dtype=bool)),
        "macro_recall_fg": _mean(sums.recall, fg),
        "accuracy": sums.right.sum(0) / sums.rows,
        "balanced_accuracy": _mean(sums.recall, classes["seen"]),
        "recall_many": _mean(sums.recall, classes["many"]),
        "recall_medium": _mean(sums.recall, classes["medium"]),
        "recall_few": _mean(sums.recall, classes["few"]),
        "nll": sums.nll / np.maximum(sums.finite, 1) if sums.finite.any() else None,
        "brier": sums.brier / sums.rows,
        "ece": np.abs(sums.gaps).sum(0) / sums.rows,
    }
    return {name: value for name, value in metrics.items() if value is not None}


def _mean(values: Floats, chosen: Bools) -> Floats | None:
    return np.asarray(values[chosen].mean(0, dtype=np.float64)) if chosen.any() else None
