"""Two rows compared class by class: F1, recall, the interval of the difference, and changes in the confusion matrix."""

from dataclasses import dataclass

import numpy as np

from frostbench.benchmarks.comparison.bootstrap import point_sums
from frostbench.benchmarks.comparison.frame import Floats, Ints, Predictions
from frostbench.benchmarks.comparison.groups import VarianceCorrection
from frostbench.benchmarks.comparison.paired import Paired
from frostbench.benchmarks.comparison.significance import LEVEL
from frostbench.benchmarks.comparison.spread import Spread


@dataclass(frozen=True)
class ClassRow:
    """One class, for a base and another row; F1 and recall are means over seeds, NaN if one of the runs lacks them.

    Attributes:
        index: class index.
        name: class name.
        shot: many, medium, few or absent, by training rows.
        train: number of training rows.
        support: number of evaluated rows; if 0, F1 and recall are meaningless.
        thin: whether there are too few evaluated rows or groups for reliable figures.
        background: whether the class is excluded from the foreground.
        f1: F1 of the base and of the other row.
        recall: recall of the base and of the other row.
        low: lower end of the 95 % interval of the F1 difference over groups and seeds, not corrected for the number of
            classes.
        high: upper end.
    """

    index: int
    name: str
    shot: str
    train: int
    support: int
    thin: bool
    background: bool
    f1: tuple[float, float]
    recall: tuple[float, float]
    low: float
    high: float

    @property
    def delta(self) -> float:
        """F1 of the other row minus that of the base."""
        return self.f1[1] - self.f1[0]


def class_rows(paired: Paired, sides: tuple[str, str], spread: Spread | None) -> tuple[ClassRow, ...]:
    """Compare every class, in class order.

    Args:
        paired: the results to compare, paired by image.
        sides: names of the baseline and of the other row.
        spread: `classes` of the `frostbench.benchmarks.comparison.resampled.Resampled` of the same sides; None without
            resampling.
    """
    frame, data, shot = paired.frame, paired.facts, paired.records[paired.baseline][0].shot
    classes = len(data.class_names)
    values = np.stack([_figures(paired, name) for name in sides])
    figures = values.mean(-1)
    half = np.full(classes, np.nan)
    if spread is not None:
        half = spread.differences(values[:, 0], VarianceCorrection.of_each_class(frame)).half_width(LEVEL)[1]
    deltas = figures[1, 0] - figures[0, 0]
    thin, support = frame.thin(), np.bincount(frame.labels, minlength=classes)
    return tuple(
        ClassRow(
            index=c,
            name=data.class_names[c],
            shot=shot[c],
            train=data.train_counts[c],
            support=int(support[c]),
            thin=bool(thin[c]),
            background=c in data.background,
            f1=(float(figures[0][0, c]), float(figures[1][0, c])),
            recall=(float(figures[0][1, c]), float(figures[1][1, c])),
            low=float(deltas[c] - half[c]),
            high=float(deltas[c] + half[c]),
        )
        for c in range(classes)
    )


def _figures(paired: Paired, name: str) -> Floats:
    """Return F1 and recall by class and run, [2, C, S]; NaN if a run has no valid predictions."""
    runs = paired.predictions[name]
    if not all(run.are_valid for run in runs):
        return np.full((2, len(paired.frame.train_counts), len(runs)), np.nan)
    return np.stack([[sums.f1[:, 0], sums.recall[:, 0]] for sums in point_sums(paired.frame, runs)], axis=-1)


@dataclass(frozen=True)
class CellChange:
    """Change of one cell of the confusion matrix from the base to the other row, in images, mean over seeds."""

    label: int
    predicted: int
    rows: float


def confusion_change(paired: Paired, sides: tuple[str, str]) -> tuple[CellChange, ...]:
    """Return the cells of the confusion matrix that differ, largest change first."""
    before, after = (_cell_codes(paired, paired.predictions[name]) for name in sides)
    codes, index = np.unique(np.concatenate([before, after]), return_inverse=True)
    signs = np.concatenate([np.full(len(before), -1.0), np.full(len(after), 1.0)])
    change = np.bincount(index, signs) / len(paired.seeds)
    order = np.argsort(-np.abs(change), kind="stable")
    classes = len(paired.frame.train_counts)
    return tuple(
        CellChange(int(codes[i]) // classes, int(codes[i]) % classes, float(change[i])) for i in order if change[i]
    )


def _cell_codes(paired: Paired, runs: tuple[Predictions, ...]) -> Ints:
    classes = len(paired.frame.train_counts)
    return np.concatenate([paired.frame.labels * classes + run.predicted for run in runs])
