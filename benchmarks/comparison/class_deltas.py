"""Two rows class by class: F1 and recall, the interval of the difference, and which mistakes came and went."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frostbench.benchmarks.comparison.bootstrap import Floats, Predictions, point_sums
from frostbench.benchmarks.comparison.groups import Groups
from frostbench.benchmarks.comparison.paired import Paired
from frostbench.benchmarks.comparison.significance import LEVEL
from frostbench.benchmarks.comparison.spread import Spread

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ClassRow:
    """One class, for a base and another row; figures are means over seeds, NaN where a run of theirs has none.

    Attributes:
        index: its place among the classes.
        name: of the class.
        shot: many, medium, few or absent, by training rows.
        train: training rows.
        support: rows here; without one, F1 and recall say nothing.
        thin: whether the rows here are too few, or of too few groups, for figures to mean much.
        background: whether the foreground leaves it out.
        f1: of the base and of the other.
        recall: of the base and of the other.
        low: lower end of the 95 % interval of the difference of F1 over groups and seeds, not corrected for the number
            of classes.
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
        """F1 of the other less that of the base."""
        return self.f1[1] - self.f1[0]


def class_rows(paired: Paired, sides: tuple[str, str], spread: Spread | None) -> tuple[ClassRow, ...]:
    """Every class, in the order of the classes.

    Args:
        paired: the rows.
        sides: the base and the other row.
        spread: from `frostbench.benchmarks.comparison.resampled.resample` with the same sides.
    """
    frame, data, shot = paired.frame, paired.facts, paired.records[paired.baseline][0].shot
    classes = len(data.class_names)
    each = np.stack([_figures(paired, name) for name in sides])
    figures = each.mean(-1)
    half = np.full(classes, np.nan)
    if spread is not None:
        half = spread.judged(each[:, 0], Groups.of_each_class(frame)).half_width(LEVEL)[1]
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
    """F1 and recall of each class in each run, [2, C, S]; NaN where a run gave no numbers."""
    runs = paired.answers[name]
    if not all(run.are_numbers for run in runs):
        return np.full((2, len(paired.frame.train_counts), len(runs)), np.nan)
    return np.stack([[sums.f1[:, 0], sums.recall[:, 0]] for sums in point_sums(paired.frame, runs)], axis=-1)


@dataclass(frozen=True)
class CellChange:
    """By how many rows, averaged over seeds, a cell of the confusion matrix grew from one row to another."""

    label: int
    predicted: int
    rows: float


def confusion_change(paired: Paired, sides: tuple[str, str]) -> tuple[CellChange, ...]:
    """The cells of the confusion matrix that differ, those that changed most first."""
    before, after = (_codes(paired, paired.answers[name]) for name in sides)
    codes, place = np.unique(np.concatenate([before, after]), return_inverse=True)
    signs = np.concatenate([np.full(len(before), -1.0), np.full(len(after), 1.0)])
    change = np.bincount(place, signs) / len(paired.seeds)
    order = np.argsort(-np.abs(change), kind="stable")
    classes = len(paired.frame.train_counts)
    return tuple(
        CellChange(int(codes[i]) // classes, int(codes[i]) % classes, float(change[i])) for i in order if change[i]
    )


def _codes(paired: Paired, runs: tuple[Predictions, ...]) -> Ints:
    """Label and prediction of every row of every run, as one number each."""
    classes = len(paired.frame.train_counts)
    return np.concatenate([paired.frame.labels * classes + run.predicted for run in runs])
