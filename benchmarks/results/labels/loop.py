"""The label loop, simulated: buy labels in batches, refit, and score on test rows, until all labels are known."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frostbench.benchmarks.results.labels.pools import Pool, macro_f1, probabilities, score_of
from frostbench.embedcache.index.next_labels import NEEDS_PROBABILITIES, UNLABELLED, Strategy, next_labels
from frostbench.embedcache.index.rows import Numbers

BATCH = 0.02
"""Share of the pool that is labelled at a time, also at first."""
AT_LEAST = 0.4
"""Share up to which every loop is run; it goes on until its target is reached."""
TARGET = 0.95
"""Share of the macro F1 with all labels that a loop is to reach."""

Chooser = Callable[[Pool, Numbers, npt.NDArray[np.float64] | None, int, int], Numbers]
"""From pool, labels so far [N], probabilities [N, C] or None, number of rows and seed to the rows to label."""


@dataclass(frozen=True)
class Curve:
    """Macro F1 on test rows by number of labels, and with all labels.

    Attributes:
        labels: number of labelled rows of each round.
        scores: macro F1 of each round.
        full: macro F1 of a head fitted to the whole pool.
        rows: rows of the pool.
    """

    labels: tuple[int, ...]
    scores: tuple[float, ...]
    full: float
    rows: int

    @property
    def share_needed(self) -> float:
        """Share of the pool's labels at which the smoothed curve first reaches `TARGET` of `full`, between rounds.

        1 if it never does, which the curve of scores that fall at the end can do.
        """
        wanted, smooth = TARGET * self.full, smoothed(self.scores)
        there = next((i for i, score in enumerate(smooth) if score >= wanted), None)
        if there is None:
            return 1.0
        if there == 0:
            return self.labels[0] / self.rows
        part = (wanted - smooth[there - 1]) / (smooth[there] - smooth[there - 1])
        return float(self.labels[there - 1] + part * (self.labels[there] - self.labels[there - 1])) / self.rows

    def score_at(self, share: float) -> float:
        """Return the macro F1 at a share of labels, interpolated linearly."""
        return float(np.interp(share * self.rows, self.labels, self.scores))


def smoothed(scores: Sequence[float]) -> list[float]:
    """Return the mean of each score and its two neighbours, so that a single lucky round does not reach a target.

    >>> smoothed([0.0, 3.0, 6.0, 6.0])
    [1.5, 3.0, 5.0, 6.0]
    """
    return [float(np.mean(scores[max(0, i - 1) : i + 2])) for i in range(len(scores))]


def chooser_of(strategy: Strategy) -> Chooser:
    """Return the chooser of a strategy; one that needs probabilities begins with random rows."""

    def choose(pool: Pool, labels: Numbers, p: npt.NDArray[np.float64] | None, count: int, seed: int) -> Numbers:
        now = "random" if p is None and strategy in NEEDS_PROBABILITIES else strategy
        return next_labels(pool.x, labels, p, count, strategy=now, seed=seed)

    return choose


def simulate(pool: Pool, choose: Chooser, seed: int) -> Curve:
    """Label a pool in batches, beginning without any label."""
    count = len(pool.labels)
    labels, p = np.full(count, UNLABELLED), None
    sizes, scores, full = list[int](), list[float](), score_of(pool, np.arange(count))
    while not _is_done(sizes, scores, full, count):
        rows = choose(pool, labels, p, max(1, round(BATCH * count)), seed * 1_000 + len(sizes))
        labels[rows] = pool.labels[rows]
        known = np.flatnonzero(labels != UNLABELLED)
        classes = np.unique(labels[known])
        p, tested = probabilities(pool.x[known], labels[known], pool.x, pool.test_x)
        sizes.append(len(known))
        scores.append(macro_f1(pool.test_labels, classes[tested.argmax(axis=1)], pool.classes))
        if len(classes) == 1:
            p = None
    return Curve(tuple(sizes), tuple(scores), full, count)


def _is_done(sizes: Sequence[int], scores: Sequence[float], full: float, count: int) -> bool:
    """Return whether all rows are labelled, or at least `AT_LEAST` of them and the target is reached."""
    if not sizes or sizes[-1] < AT_LEAST * count:
        return False
    return sizes[-1] == count or max(smoothed(scores)[:-1], default=0) >= TARGET * full
