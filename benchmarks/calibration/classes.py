"""Calibration class by class: of the rows that are predicted as a class, and of all rows against its probability."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from frostbench.benchmarks.calibration.resampled import Draws, quantiles
from frostbench.training.metrics.bins import Bools, Floats, Ints, sums_by
from frostbench.training.metrics.calibration import Judged


@dataclass(frozen=True)
class Confident:
    """What the S runs of a row say of the same N rows, as far as charts and classes need it.

    Attributes:
        confidences: [S, N] probability of the predicted class.
        predicted: [S, N] class indices.
        right: [S, N] whether it is the label.
        class_ece: [S, C] class-wise ECE.
    """

    confidences: Floats
    predicted: Ints
    right: Bools
    class_ece: Floats

    @classmethod
    def of(cls, judged: Judged) -> "Confident":
        """Of one run."""
        each = judged.classes.sums().ece[:, 0]
        return cls(judged.confidences[None], judged.predicted[None], judged.right[None], each[None])

    @classmethod
    def joined(cls, runs: Sequence["Confident"]) -> "Confident":
        """Of several runs on the same rows."""
        names = ("confidences", "predicted", "right", "class_ece")
        return cls(*(np.concatenate([vars(run)[name] for run in runs]) for name in names))


@dataclass(frozen=True)
class ClassCalibration:
    """One class, means over seeds; NaN where no row is predicted as it.

    Attributes:
        name: of the class.
        support: rows of the class.
        predicted: rows predicted as it.
        ece: class-wise ECE: its probability against belonging to it, over all rows.
        gap: mean confidence less accuracy, over the rows predicted as it; above 0 it is overconfident.
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
    said: Confident, labels: Ints, names: Sequence[str], draws: Draws
) -> tuple[ClassCalibration, ...]:
    """Every class, in order.

    Args:
        said: what the runs of a row say, one for each seed.
        labels: [N] class indices.
        names: C names of the classes.
        draws: resamples of the rows.
    """
    classes = len(names)
    rows, gaps = _predicted(said, classes, np.ones((len(labels), 1)))
    drawn = [_ratio(*reversed(_predicted(said, classes, weights))) for _, weights in draws.weights(classes)]
    low, high = quantiles(np.concatenate(drawn, axis=1))
    counts, ece, gap = rows[:, 0] / len(said.right), said.class_ece.mean(0), _ratio(gaps, rows)[:, 0]
    support = np.bincount(labels, minlength=classes)
    return tuple(
        ClassCalibration(name, int(support[c]), *(float(v[c]) for v in (counts, ece, gap, low, high)))
        for c, name in enumerate(names)
    )


def _predicted(said: Confident, classes: int, weights: Floats) -> tuple[Floats, Floats]:
    """Rows by predicted class, and sums of their confidence less being right, [C, B], over all runs."""
    rows, gaps = np.zeros((classes, weights.shape[1])), np.zeros((classes, weights.shape[1]))
    for confidences, predicted, right in zip(said.confidences, said.predicted, said.right, strict=True):
        rows += sums_by(predicted, classes, weights)
        gaps += sums_by(predicted, classes, weights * (confidences - right)[:, None])
    return rows, gaps


def _ratio(sums: Floats, rows: Floats) -> Floats:
    return np.divide(sums, rows, out=np.full_like(sums, np.nan), where=rows > 0)
