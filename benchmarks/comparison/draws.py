"""Resamples of groups: how often each of G groups comes up in G draws with replacement."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.uint8]
MANY_GROUPS = 8192
"""From here on, counting Poisson numbers and topping them up is faster than counting draws."""
MOST_GROUPS = 2**24
"""Below this, float32 counts groups exactly."""
CELLS = 2**16
MOST_KEPT = 2**26
"""Multiplicities that are kept for the next comparison of the same images, a byte each."""
OPEN = 255
"""Stands for a count that 16 bits do not decide."""


def resamples(n_groups: int, count: int, seed: int, step: int) -> Iterator[npt.NDArray[Any]]:
    """Multiplicities of `count` resamples of G groups, in pieces [G, b]; every column sums to G.

    Args:
        n_groups: G.
        count: resamples in all.
        seed: of the draws.
        step: most resamples of one piece.
    """
    if n_groups * count <= MOST_KEPT:
        yield from _kept(n_groups, count, seed, step)
    else:
        yield from _drawn(n_groups, count, seed, step)


@lru_cache(maxsize=2)
def _kept(n_groups: int, count: int, seed: int, step: int) -> tuple[npt.NDArray[Any], ...]:
    """The pieces, in bytes where they fit: whoever compares runs compares more of them on the same images."""
    return tuple(_packed(piece) for piece in _drawn(n_groups, count, seed, step))


def _packed(piece: npt.NDArray[Any]) -> npt.NDArray[Any]:
    packed = piece.astype(np.uint8) if piece.max(initial=0) <= np.iinfo(np.uint8).max else piece
    packed.flags.writeable = False
    return packed


def _drawn(n_groups: int, count: int, seed: int, step: int) -> Iterator[npt.NDArray[Any]]:
    generator = np.random.default_rng(seed)
    poisson = _Poisson.of(1 - 6 / math.sqrt(n_groups)) if MANY_GROUPS <= n_groups < MOST_GROUPS else None
    for start in range(0, count, step):
        size = min(step, count - start)
        yield _counted(n_groups, size, generator) if poisson is None else _topped_up(poisson, n_groups, size, generator)


def _counted(n_groups: int, size: int, generator: np.random.Generator) -> npt.NDArray[np.intp]:
    draws = (np.bincount(generator.integers(0, n_groups, n_groups), minlength=n_groups) for _ in range(size))
    return np.stack(list(draws), axis=1)


def _topped_up(
    poisson: "_Poisson", n_groups: int, size: int, generator: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Multinomial counts [G, b] of G draws each.

    Independent Poisson counts are, given their sum S, the counts of S draws. Their mean is so far below 1 that S is at
    most G but once in a billion times, and then the column is drawn anew; G - S plain draws make up what lacks. This
    holds for every S, so the outcome is exactly that of G draws.
    """
    counts = poisson.draw(n_groups * size, generator).reshape(n_groups, size).astype(np.float32)
    lacking = n_groups - _totals(counts)
    for column in np.flatnonzero(lacking < 0):
        while lacking[column] < 0:
            counts[:, column] = poisson.draw(n_groups, generator)
            lacking[column] = n_groups - int(counts[:, column].sum())
    more = generator.integers(0, n_groups, int(lacking.sum()))
    np.add.at(counts.reshape(-1), more * size + np.repeat(np.arange(size), lacking), np.float32(1))
    return counts


def _totals(counts: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Sums of the columns [b] of counts [G, b], which float32 holds exactly.

    Rows are added 64 at a time: as fast as a product with ones, and without the threads of a linear algebra library,
    which would keep every core spinning between the pieces.
    """
    whole, size = len(counts) // 64 * 64, counts.shape[1]
    folded = counts[:whole].reshape(-1, 64 * size).sum(0).reshape(64, size)
    totals: npt.NDArray[np.float32] = folded.sum(0) + counts[whole:].sum(0)
    return totals.astype(np.int64)


@dataclass(frozen=True)
class _Poisson:
    """A Poisson distribution by inversion: 16 bits of a uniform number look the count up in a table.

    Attributes:
        below: cumulative probabilities.
        table: [65536] the count, or OPEN where a cumulative probability lies inside the cell, so that a draw inside the
            cell decides.
    """

    below: npt.NDArray[np.float64]
    table: Counts

    @classmethod
    def of(cls, mean: float) -> "_Poisson":
        steps = [math.exp(-mean)]
        while steps[-1] > 1e-18:
            steps.append(steps[-1] * mean / len(steps))
        below = np.cumsum(steps)
        first = np.searchsorted(below, np.arange(CELLS) / CELLS, side="right")
        last = np.searchsorted(below, np.arange(1, CELLS + 1) / CELLS, side="left")
        return cls(below, np.where(first == last, first, OPEN).astype(np.uint8))

    def draw(self, size: int, generator: np.random.Generator) -> Counts:
        cells = generator.bit_generator.random_raw(-(-size // 4)).view(np.uint16)[:size]
        counts = self.table.take(cells)
        undecided = np.flatnonzero(counts == OPEN)
        exact = (cells[undecided] + generator.random(len(undecided))) / CELLS
        counts[undecided] = np.searchsorted(self.below, exact, side="right")
        return counts
