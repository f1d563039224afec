"""Bootstrap resamples of groups: the multiplicity of each of G groups in G draws with replacement."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.uint8]
MANY_GROUPS = 8192
"""From this many groups on, drawing Poisson counts and topping them up is faster than counting draws."""
MOST_GROUPS = 2**24
"""Below this many groups, float32 holds their counts exactly."""
CELLS = 2**16
MOST_KEPT = 2**26
"""Most multiplicities that are cached for the next comparison on the same images, one byte each."""
OPEN = 255
"""Marks a cell of the table in which 16 bits do not determine the count."""


def resamples(n_groups: int, count: int, seed: int, step: int) -> Iterator[npt.NDArray[Any]]:
    """Yield multiplicities of `count` resamples of G groups, in chunks [G, b]; every column sums to G.

    Args:
        n_groups: number of groups, G.
        count: total number of resamples.
        seed: random seed.
        step: most resamples per chunk.
    """
    if n_groups * count <= MOST_KEPT:
        yield from _kept(n_groups, count, seed, step)
    else:
        yield from _drawn(n_groups, count, seed, step)


@lru_cache(maxsize=2)
def _kept(n_groups: int, count: int, seed: int, step: int) -> tuple[npt.NDArray[Any], ...]:
    """Return the chunks, as uint8 if the counts fit; cached, since further comparisons usually use the same images."""
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
        yield (
            _drawn_directly(n_groups, size, generator)
            if poisson is None
            else _drawn_by_poisson(poisson, n_groups, size, generator)
        )


def _drawn_directly(n_groups: int, size: int, generator: np.random.Generator) -> npt.NDArray[np.intp]:
    draws = (np.bincount(generator.integers(0, n_groups, n_groups), minlength=n_groups) for _ in range(size))
    return np.stack(list(draws), axis=1)


def _drawn_by_poisson(
    poisson: "_Poisson", n_groups: int, size: int, generator: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Draw multinomial counts [G, b] of G draws each.

    Independent Poisson counts are, given their sum S, distributed as the counts of S draws. Their mean is set far
    enough below 1 that S exceeds G only once in a billion columns; such a column is drawn again. G - S plain draws fill
    the rest. As this holds for every S, the result has exactly the distribution of G draws.
    """
    counts = poisson.draw(n_groups * size, generator).reshape(n_groups, size).astype(np.float32)
    missing = n_groups - _totals(counts)
    for column in np.flatnonzero(missing < 0):
        while missing[column] < 0:
            counts[:, column] = poisson.draw(n_groups, generator)
            missing[column] = n_groups - int(counts[:, column].sum())
    more = generator.integers(0, n_groups, int(missing.sum()))
    np.add.at(counts.reshape(-1), more * size + np.repeat(np.arange(size), missing), np.float32(1))
    return counts


def _totals(counts: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Return the column sums [b] of counts [G, b], which float32 holds exactly.

    Adding 64 rows at a time is as fast as a product with ones, but does not start the threads of a linear algebra
    library, which would keep all cores spinning between chunks.
    """
    full, size = len(counts) // 64 * 64, counts.shape[1]
    folded = counts[:full].reshape(-1, 64 * size).sum(0).reshape(64, size)
    totals: npt.NDArray[np.float32] = folded.sum(0) + counts[full:].sum(0)
    return totals.astype(np.int64)


@dataclass(frozen=True)
class _Poisson:
    """A Poisson distribution sampled by inversion: 16 bits of a uniform number index a table of counts.

    Attributes:
        below: cumulative probabilities.
        table: [65536] the count, or OPEN if a cumulative probability lies inside the cell and a further draw must
            decide.
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
