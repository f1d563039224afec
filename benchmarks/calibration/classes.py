"""Calibration by class: confidence of the rows predicted as a class, and probability of the class over all rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from frostbench.benchmarks.calibration.resampled import Draws, quantiles
from frostbench.training.metrics.bins import Bools, Floats, Ints, sums_by
from frostbench.training.metrics.calibration import Judged


@dataclass(frozen=True)
class Confidences:
    """Predictions of S runs of a row for the same N rows, reduced to what charts and classes need.

    Attributes:
        confidences: [S, N] probability of the predicted class.
        predicted: [S, N] class indices.
        right: [S, N] whether the prediction is right.
        class_ece: [S, C] class-wise ECE.
    """

    confidences: Floats
    predicted: Ints
    right: Bools
    class_ece: Floats

    @classmethod
    def of(cls, judged: Judged) -> "Confidences":
        """Reduce the predictions of one run."""
        class_ece = judged.classes.sums().ece[:, 0]
        return cls(judged.confidences[None], judged.predicted[None], judged.right[None], class_ece[None])

    @classmethod
    def joined(cls, runs: Sequence["Confidences"]) -> "Confidences":
        """Join several runs on the same rows."""
        names = ("confidences", "predicted", "right", "class_ece")
        return cls(*(np.concatenate([vars(run)[name] for run in runs]) for name in names))


@dataclass(frozen=True)
class ClassCalibration:
    """Calibration of one class over all seeds; the gap and its interval are NaN if no row is predicted as the class.

    Attributes:
        name: class name.
        support: number of rows of the class.
        predicted: number of rows predicted as the class, mean over seeds.
        ece: class-wise ECE, mean over seeds: the probability of the class against membership, over all rows.
        gap: mean confidence minus accuracy over the rows predicted as the class; positive means overconfident.
        low: lower end of the 95 % interval of the gap, not corrected for the number of classes.
        high: upper end.
    """

    name: str
    support: int
    predicted: float
    ece: float
    gap: float
    low: float
    high: float


def class_calibration(
    runs: Confidences, labels: Ints, names: Sequence[str], draws: Draws
) -> tuple[ClassCalibration, ...]:
    """Compute the calibration of every class, in class order.

    Args:
        runs: predictions of a row's runs.
        labels: [N] class indices.
        names: C class names.
        draws: resamples of the rows.
    """
    classes = len(names)
    rows, gaps = _predicted(runs, classes, np.ones((len(labels), 1)))
    replicates = [_ratio(*reversed(_predicted(runs, classes, weights))) for _, weights in draws.weights(classes)]
    low, high = quantiles(np.concatenate(replicates, axis=1))
    counts, ece, gap = rows[:, 0] / len(runs.right), runs.class_ece.mean(0), _ratio(gaps, rows)[:, 0]
    support = np.bincount(labels, minlength=classes)
    return tuple(
        ClassCalibration(name, int(support[c]), *(float(v[c]) for v in (counts, ece, gap, low, high)))
        for c, name in enumerate(names)
    )


def _predicted(runs: Confidences, classes: int, weights: Floats) -> tuple[Floats, Floats]:
    """Return weighted row counts and sums of confidence minus correctness over all runs, by predicted class, [C, B]."""
    rows, gaps = np.zeros((classes, weights.shape[1])), np.zeros((classes, weights.shape[1]))
    for confidences, predicted, right in zip(runs.confidences, runs.predicted, runs.right, strict=True):
        rows += sums_by(predicted, classes, weights)
        gaps += sums_by(predicted, classes, weights * (confidences - right)[:, None])
    return rows, gaps


def _ratio(sums: Floats, rows: Floats) -> Floats:
    return np.divide(sums, rows, out=np.full_like(sums, np.nan), where=rows > 0)
