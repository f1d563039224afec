"""The paired group bootstrap: how far a metric would move if other groups had been drawn.

Every metric here is a function of sums over rows. The sums of each group are taken once, [K, G]; a resample of the
groups is a vector of multiplicities [G], so the sums of B resamples are one product [K, G] x [G, B]. It is taken for
all runs at once, in pieces of resamples that fit a processor's cache; what does not depend on the run is summed once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array

from frostbench.benchmarks.comparison.draws import resamples
from frostbench.training.metrics.classification import ECE_BINS
from frostbench.training.metrics.counts import class_sets, f1, precision, recall

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
CELLS = 2**19
"""Multiplicities, or sums, of one piece: 2 MiB of float32."""
FEWEST_RESAMPLES, MOST_RESAMPLES = 16, 512
"""Resamples of one piece, however many groups and sums there are."""
FLOAT32_ROWS = 2**18
"""Of fewer rows, float32 holds every count exactly, and sums of losses to five digits, far finer than any interval."""


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

    @cached_property
    def classes(self) -> dict[str, Bools]:
        """Which classes [C] each mean over classes runs over: those with rows, fixed for every resample."""
        support = np.bincount(self.labels, minlength=len(self.train_counts))
        return class_sets(support, self.train_counts, self.background)

    @cached_property
    def groups_by_class(self) -> Ints:
        """How many groups have rows of each class, [C]."""
        pairs = np.unique(self.labels * self.n_groups + self.groups)
        return np.bincount(pairs // self.n_groups, minlength=len(self.train_counts))

    def thin(self) -> Bools:
        """Which classes [C] have rows here, but too few of them, or of too few groups."""
        rows = np.bincount(self.labels, minlength=len(self.train_counts))
        return (rows > 0) & ((rows < FEWEST_ROWS) | (self.groups_by_class < FEWEST_CLASS_GROUPS))


@dataclass(frozen=True)
class Predictions:
    """What one run said about each of the N rows of a frame.

    Attributes:
        predicted: [N] class indices.
        confidence: [N] probability of the predicted class.
        confidence_raw: [N] that before any temperature.
        log_p: [N] log-probability of the label; -inf where its class was never trained.
        brier: [N] Brier score.
    """

    predicted: Ints
    confidence: Floats
    confidence_raw: Floats
    log_p: Floats
    brier: Floats

    @property
    def are_numbers(self) -> bool:
        """Whether every value is one; a run that diverged has NaN, and its predictions mean nothing either."""
        return bool(
            np.isfinite(self.confidence).all() and np.isfinite(self.brier).all() and (self.log_p < np.inf).all()
        )

    def same_as(self, other: "Predictions") -> bool:
        """Whether both said exactly the same about every row."""
        return all(np.array_equal(vars(self)[name], vars(other)[name]) for name in vars(self))


@dataclass(frozen=True)
class Sums:
    """Sums of one run over the rows of each of B resamples.

    Attributes:
        support: [C, B] rows by label.
        rows: [B] all rows.
        right: [C, B] right predictions by label.
        predicted: [C, B] rows by prediction.
        finite: [B] rows whose label was ever trained.
        nll: [B] minus their log-probabilities.
        brier: [B] Brier scores.
        gaps: [bins, B] confidence less correctness, by bin of confidence.
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
        """F1 of each class, [C, B]; 0 where a resample has neither label nor prediction of it."""
        return f1(self.right, self.support, self.predicted)

    @cached_property
    def recall(self) -> Floats:
        """Recall of each class, [C, B]; 0 where a resample has no row of it."""
        return recall(self.right, self.support)


def point_sums(frame: Frame, runs: Sequence[Predictions]) -> list[Sums]:
    """The sums of each run over the rows themselves, B = 1."""
    return sums_of(frame, runs, np.ones((frame.n_groups, 1)))


def sums_of(frame: Frame, runs: Sequence[Predictions], multiplicities: Floats) -> list[Sums]:
    """The sums of each run on the same resamples, given how often each group was drawn, [G, B]."""
    return _split(frame, _by_group(frame, runs) @ multiplicities, len(runs))


def resampled_sums(
    frame: Frame, runs: Sequence[Predictions], count: int, seed: int
) -> Iterator[tuple[slice, list[Sums]]]:
    """The sums of each run on the same resamples of the groups, piece by piece: which resamples, and their sums.

    Args:
        frame: the rows.
        runs: what is to be compared.
        count: resamples in all.
        seed: of the draws.
    """
    kind = np.float32 if len(frame.labels) < FLOAT32_ROWS else np.float64
    by_group = _by_group(frame, runs).astype(kind)
    step = min(MOST_RESAMPLES, max(FEWEST_RESAMPLES, CELLS // max(by_group.shape)))
    start = 0
    for multiplicities in resamples(frame.n_groups, count, seed, step):
        piece = slice(start, start + multiplicities.shape[1])
        yield piece, _split(frame, by_group @ multiplicities.astype(kind, copy=False), len(runs))
        start = piece.stop


def _by_group(frame: Frame, runs: Sequence[Predictions]) -> Any:
    """Sparse sums of each group, [K, G]: C of what all runs share, then 2 C + 3 + bins of each run."""
    classes, rows = len(frame.train_counts), np.arange(len(frame.labels))
    entries = [(frame.labels, rows, np.ones(len(rows)))]
    for number, run in enumerate(runs):
        start = classes + number * (2 * classes + 3 + ECE_BINS)
        entries += [(start + kind, row, value) for kind, row, value in _entries(frame, run)]
    kind, row, value = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    shape = (classes + len(runs) * (2 * classes + 3 + ECE_BINS), frame.n_groups)
    return coo_array((value, (kind.astype(np.int32), frame.groups[row].astype(np.int32))), shape=shape).tocsr()


def _entries(frame: Frame, run: Predictions) -> list[tuple[Ints, Ints, Floats]]:
    """What one run adds to which of its sums: (sum, row, value), each [n]."""
    classes, rows = len(frame.train_counts), np.arange(len(frame.labels))
    right, trained = frame.labels == run.predicted, ~np.isneginf(run.log_p)
    bins = np.clip(np.ceil(run.confidence * ECE_BINS).astype(np.int64) - 1, 0, ECE_BINS - 1)
    one, scalars = np.ones(len(rows)), 2 * classes
    return [
        (frame.labels[right], rows[right], one[right]),
        (classes + run.predicted, rows, one),
        (np.full(int((~trained).sum()), scalars), rows[~trained], one[~trained]),
        (np.full(int(trained.sum()), scalars + 1), rows[trained], -run.log_p[trained]),
        (np.full(len(rows), scalars + 2), rows, run.brier),
        (scalars + 3 + bins, rows, run.confidence - right),
    ]


def _split(frame: Frame, product: Floats, runs: int) -> list[Sums]:
    """The rows of a product of `_by_group` as sums of each run."""
    c = len(frame.train_counts)
    support, own = product[:c], product[c:].reshape(runs, 2 * c + 3 + ECE_BINS, -1)
    rows = support.sum(0)
    return [
        Sums(
            support, rows, one[:c], one[c : 2 * c], rows - one[2 * c], one[2 * c + 1], one[2 * c + 2], one[2 * c + 3 :]
        )
        for one in own
    ]


def metrics_of(frame: Frame, sums: Sums) -> dict[str, Floats]:
    """Every metric for each resample, [B]; a metric without a class to average, or without a row, is left out.

    The classes of a mean stay those of the frame: one that a resample misses counts with 0, for every run alike.
    """
    chosen, fg = frame.classes, frame.classes["fg"]
    support = sums.support[fg]
    precisions = precision(sums.right[fg], sums.predicted[fg])
    found = {
        "macro_f1_fg": _mean(sums.f1, fg),
        "weighted_f1_fg": (sums.f1[fg] * support).sum(0) / np.maximum(support.sum(0), 1) if fg.any() else None,
        "macro_precision_fg": _mean(precisions, np.ones(len(precisions), dtype=bool)),
        "macro_recall_fg": _mean(sums.recall, fg),
        "accuracy": sums.right.sum(0) / sums.rows,
        "balanced_accuracy": _mean(sums.recall, chosen["seen"]),
        "recall_many": _mean(sums.recall, chosen["many"]),
        "recall_medium": _mean(sums.recall, chosen["medium"]),
        "recall_few": _mean(sums.recall, chosen["few"]),
        "nll": sums.nll / np.maximum(sums.finite, 1) if sums.finite.any() else None,
        "brier": sums.brier / sums.rows,
        "ece": np.abs(sums.gaps).sum(0) / sums.rows,
    }
    return {name: value for name, value in found.items() if value is not None}


def _mean(values: Floats, chosen: Bools) -> Floats | None:
    return np.asarray(values[chosen].mean(0, dtype=np.float64)) if chosen.any() else None
