"""The paired group bootstrap: how far a metric would move if other groups had been drawn.

Every metric here is a function of sums over rows. The sums of each group are taken once, [K, G]; a resample of the
groups is a vector of multiplicities [G], so the sums of B resamples are one product [K, G] x [G, B].
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array

from training.metrics import ECE_BINS, FEW_BELOW, MANY_ABOVE

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

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
"""The metrics that are compared, with their direction."""
FEWEST_ROWS, FEWEST_CLASS_GROUPS = 5, 3
"""A class with fewer rows or groups than this is thin: its own figures are noise."""
CELLS = 2**24
"""Numbers that one product may hold, 128 MiB of float64."""


@dataclass(frozen=True)
class Frame:
    """The rows that all compared runs were evaluated on.

    Attributes:
        labels: [N] class indices.
        groups: [N] group indices from 0 to G - 1.
        train_counts: [C] training rows per class.
        background: class indices left out of the foreground.
    """

    labels: Ints
    groups: Ints
    train_counts: Ints
    background: tuple[int, ...] = ()

    @property
    def n_groups(self) -> int:
        """G."""
        return int(self.groups.max()) + 1

    def classes(self) -> dict[str, Bools]:
        """Which classes [C] each mean over classes runs over: those with rows, fixed for every resample."""
        seen = np.bincount(self.labels, minlength=len(self.train_counts)) > 0
        foreground = seen.copy()
        foreground[list(self.background)] = False
        many, few = self.train_counts > MANY_ABOVE, (self.train_counts > 0) & (self.train_counts < FEW_BELOW)
        medium = (self.train_counts >= FEW_BELOW) & ~many
        return {"seen": seen, "fg": foreground, "many": seen & many, "medium": seen & medium, "few": seen & few}

    def thin(self) -> Bools:
        """Which classes [C] have rows here, but too few of them, or of too few groups."""
        classes = len(self.train_counts)
        rows = np.bincount(self.labels, minlength=classes)
        pairs = np.unique(np.stack([self.labels, self.groups]), axis=1)
        groups = np.bincount(pairs[0], minlength=classes)
        return (rows > 0) & ((rows < FEWEST_ROWS) | (groups < FEWEST_CLASS_GROUPS))


@dataclass(frozen=True)
class Answers:
    """What one run said about each of the N rows of a frame.

    Attributes:
        predicted: [N] class indices.
        confidence: [N] probability of the predicted class.
        log_p: [N] log-probability of the label; -inf where its class was never trained.
        brier: [N] Brier score.
    """

    predicted: Ints
    confidence: Floats
    log_p: Floats
    brier: Floats

    @property
    def are_numbers(self) -> bool:
        """Whether every value is one; a run that diverged has NaN, and its predictions mean nothing either."""
        return bool(
            np.isfinite(self.confidence).all() and np.isfinite(self.brier).all() and (self.log_p < np.inf).all()
        )

    def same_as(self, other: "Answers") -> bool:
        """Whether both said exactly the same about every row."""
        return all(np.array_equal(vars(self)[name], vars(other)[name]) for name in vars(self))


def group_sums(frame: Frame, answers: Answers) -> Any:
    """Sparse sums [K, G] of one run; K is 3 C for right, predicted and support, 4 scalars, and the ECE bins."""
    classes, rows = len(frame.train_counts), np.arange(len(frame.labels))
    right = frame.labels == answers.predicted
    finite = ~np.isneginf(answers.log_p)
    bins = np.clip(np.ceil(answers.confidence * ECE_BINS).astype(np.int64) - 1, 0, ECE_BINS - 1)
    one, scalars = np.ones(len(rows)), 3 * classes
    entries = [
        (frame.labels[right], rows[right], one[right]),
        (classes + answers.predicted, rows, one),
        (2 * classes + frame.labels, rows, one),
        (np.full(len(rows), scalars), rows, one),
        (np.full(int(finite.sum()), scalars + 1), rows[finite], one[finite]),
        (np.full(int(finite.sum()), scalars + 2), rows[finite], -answers.log_p[finite]),
        (np.full(len(rows), scalars + 3), rows, answers.brier),
        (scalars + 4 + bins, rows, answers.confidence - right),
    ]
    kind, row, value = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    shape = (scalars + 4 + ECE_BINS, frame.n_groups)
    return coo_array((value, (kind, frame.groups[row])), shape=shape).tocsr()


def metrics_of(frame: Frame, sums: Any, multiplicities: Floats) -> dict[str, Floats]:
    """Every metric for each resample, [B]; a metric without a class to average is left out.

    The classes of a mean stay those of the frame: one that a resample misses counts with 0, for every run alike.

    Args:
        frame: the rows.
        sums: of one run, from `group_sums`, [K, G].
        multiplicities: how often each group was drawn, [B, G]; a row of ones gives the metric itself.
    """
    classes, chosen = len(frame.train_counts), frame.classes()
    drawn = sums @ multiplicities.T
    right, predicted, support = drawn[:classes], drawn[classes : 2 * classes], drawn[2 * classes : 3 * classes]
    n, finite, nll, brier = drawn[3 * classes : 3 * classes + 4]
    recall = right / np.maximum(support, 1)
    f1 = 2 * right / np.maximum(support + predicted, 1)
    precision = right / np.maximum(predicted, 1)
    fg = chosen["fg"]
    weight = support[fg].sum(0)
    found = {
        "macro_f1_fg": _mean(f1, fg),
        "weighted_f1_fg": (f1[fg] * support[fg]).sum(0) / np.maximum(weight, 1) if fg.any() else None,
        "macro_precision_fg": _mean(precision, fg),
        "macro_recall_fg": _mean(recall, fg),
        "accuracy": right.sum(0) / n,
        "balanced_accuracy": _mean(recall, chosen["seen"]),
        "recall_many": _mean(recall, chosen["many"]),
        "recall_medium": _mean(recall, chosen["medium"]),
        "recall_few": _mean(recall, chosen["few"]),
        "nll": nll / np.maximum(finite, 1) if sums[3 * classes + 1].sum() else None,
        "brier": brier / n,
        "ece": np.abs(drawn[3 * classes + 4 :]).sum(0) / n,
    }
    return {name: value for name, value in found.items() if value is not None}


def _mean(values: Floats, chosen: Bools) -> Floats | None:
    return np.asarray(values[chosen].mean(0)) if chosen.any() else None


def class_f1(frame: Frame, sums: Any, multiplicities: Floats) -> Floats:
    """F1 of each class for each resample, [C, B]; 0 where a resample has neither label nor prediction of it."""
    classes = len(frame.train_counts)
    drawn = sums[: 3 * classes] @ multiplicities.T
    return np.asarray(2 * drawn[:classes] / np.maximum(drawn[classes : 2 * classes] + drawn[2 * classes :], 1))


def resamples(n_groups: int, count: int, seed: int, width: int = 1) -> Iterator[Floats]:
    """Multiplicities of `count` resamples of the groups with replacement, in pieces [b, G].

    The pieces follow from a bound on memory; the draws do not depend on where they are cut.

    Args:
        n_groups: G.
        count: resamples in all.
        seed: of the draws.
        width: the most sums per resample that the caller will hold, K.
    """
    generator = np.random.default_rng(seed)
    step = max(1, CELLS // max(n_groups, width))
    for start in range(0, count, step):
        size = min(step, count - start)
        draws = (np.bincount(generator.integers(0, n_groups, n_groups), minlength=n_groups) for _ in range(size))
        yield np.stack(list(draws)).astype(np.float64)


def resampled_metrics(frame: Frame, runs: Sequence[Any], count: int, seed: int) -> list[dict[str, Floats]]:
    """Every metric of every run on the same resamples: for each run, name to [B]."""
    if not runs:
        return []
    pieces: list[list[dict[str, Floats]]] = [[] for _ in runs]
    for multiplicities in resamples(frame.n_groups, count, seed, runs[0].shape[0]):
        for found, sums in zip(pieces, runs, strict=True):
            found.append(metrics_of(frame, sums, multiplicities))
    return [{name: np.concatenate([piece[name] for piece in found]) for name in found[0]} for found in pieces]
