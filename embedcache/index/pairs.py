"""Search for all pairs of rows above a cosine threshold, block by block, with one block of cosines in memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from frostbench.embedcache.index.rows import Numbers, UnitRows, Vectors
from frostbench.embedcache.index.search import QUERY_ROWS, Method, inverted_file, is_exact
from frostbench.embedcache.storage.files import CacheError

MARGIN = 0.005
"""Maximum distance of a pair's cosine from the threshold to count as close to it."""
MOST_PAIRS = 5_000_000
"""Maximum number of pairs; more mean that the threshold is too low."""

Block = tuple[Numbers, Numbers, Vectors]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of rows whose cosine is at least a threshold, each once.

    Attributes:
        first: int64 [P], the lower row number.
        second: int64 [P], the higher row number.
        cosine: float32 [P].
        below: number of pairs less than MARGIN below the threshold.
        above: number of pairs less than MARGIN above it.
        method: exact or ivf.
        recall: recall on a sample's nearest neighbours; 1 if all pairs were compared.
    """

    first: Numbers
    second: Numbers
    cosine: Vectors
    below: int
    above: int
    method: str
    recall: float


def near_pairs(rows: UnitRows, threshold: float, method: Method = "auto") -> Pairs:
    """Find the pairs of rows with a cosine of at least the threshold.

    Args:
        rows: [N, D].
        threshold: 0 to 1.
        method: exact, ivf (an inverted file index, which may miss pairs), or auto (by the number of rows).

    Raises:
        CacheError: there are more than MOST_PAIRS.
    """
    if is_exact(rows.shape[0] ** 2, method):
        return _gathered(_exact(rows, threshold - MARGIN), threshold, "exact", 1.0)
    index, recall = inverted_file(rows)
    return _gathered(_within(index, rows, threshold - MARGIN), threshold, "ivf", recall)


def _gathered(blocks: Iterator[Block], threshold: float, method: str, recall: float) -> Pairs:
    """Collect the pairs that reach the threshold from all blocks, and count those close to it."""
    kept: list[Block] = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))]
    below = above = total = 0
    for first, second, cosine in blocks:
        is_pair = cosine >= threshold
        below += int((~is_pair).sum())
        above += int((is_pair & (cosine < threshold + MARGIN)).sum())
        total += int(is_pair.sum())
        if total > MOST_PAIRS:
            raise CacheError(
                f"At most {MOST_PAIRS} pairs of near-duplicates are supported, but more have a cosine of at least "
                f"{threshold}. Raise the threshold."
            )
        kept.append((first[is_pair], second[is_pair], cosine[is_pair]))
    first, second, cosine = (np.concatenate(part) for part in zip(*kept, strict=True))
    return Pairs(first, second, cosine, below, above, method, recall)


def _exact(rows: UnitRows, least: float) -> Iterator[Block]:
    """Yield the pairs with a cosine of at least `least`, block against block, comparing any two rows only once."""
    for start, x in rows.blocks(QUERY_ROWS):
        for other in range(start, rows.shape[0], QUERY_ROWS):
            y = x if other == start else rows.block(other, min(other + QUERY_ROWS, rows.shape[0]))
            cosine = x @ y.T
            first, second = np.nonzero(cosine >= least)
            if other == start:
                first, second = first[first < second], second[first < second]
            found = cosine[first, second]
            # Otherwise two blocks of cosines would be in memory while the next one is computed.
            del cosine
            yield first + start, second + other, found


def _within(index: Any, rows: UnitRows, least: float) -> Iterator[Block]:
    """Yield the pairs with a cosine of at least `least` that an inverted file index finds, by the lower row number."""
    for start, x in rows.blocks(QUERY_ROWS):
        ends, cosine, second = index.range_search(x, least)
        first = np.repeat(np.arange(start, start + len(x)), np.diff(ends.astype(np.int64)))
        forth = first < second
        yield first[forth], second[forth], cosine[forth]
