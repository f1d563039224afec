"""All pairs of rows above a cosine, by a search over blocks that never holds more than one block of cosines."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from frostbench.embedcache.index.rows import Numbers, UnitRows, Vectors
from frostbench.embedcache.index.search import QUERY_ROWS, Method, inverted_file, is_exact
from frostbench.embedcache.storage.files import CacheError

MARGIN = 0.005
"""How far from the threshold a pair's cosine counts as near it."""
MOST_PAIRS = 5_000_000
"""More pairs than this are no duplicates but a threshold that is too low."""

Block = tuple[Numbers, Numbers, Vectors]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of rows whose cosine is at least a threshold, the lower row first, each once.

    Attributes:
        first: int64 [P].
        second: int64 [P], greater than first.
        cosine: float32 [P].
        below: pairs that miss the threshold by less than MARGIN.
        above: pairs that exceed it by less than MARGIN.
        method: exact or ivf.
        recall: of a sample's nearest neighbours; 1 where all pairs were compared.
    """

    first: Numbers
    second: Numbers
    cosine: Vectors
    below: int
    above: int
    method: str
    recall: float


def near_pairs(rows: UnitRows, threshold: float, method: Method = "auto") -> Pairs:
    """The pairs of rows with a cosine of at least the threshold.

    Args:
        rows: [N, D].
        threshold: 0 to 1.
        method: exact, ivf (an inverted file, which may miss pairs), or by the number of rows.

    Raises:
        CacheError: there are more than MOST_PAIRS.
    """
    if is_exact(rows.shape[0] ** 2, method):
        return _gathered(_exact(rows, threshold - MARGIN), threshold, "exact", 1.0)
    index, recall = inverted_file(rows)
    return _gathered(_within(index, rows, threshold - MARGIN), threshold, "ivf", recall)


def _gathered(blocks: Iterator[Block], threshold: float, method: str, recall: float) -> Pairs:
    """The pairs of all blocks that reach the threshold, and how many lie close to it."""
    kept: list[Block] = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))]
    below = above = total = 0
    for first, second, cosine in blocks:
        is_pair = cosine >= threshold
        below += int((~is_pair).sum())
        above += int((is_pair & (cosine < threshold + MARGIN)).sum())
        total += int(is_pair.sum())
        if total > MOST_PAIRS:
            raise CacheError(
                f"near-copies are few, at most {MOST_PAIRS} pairs, however: more have a cosine of {threshold} and "
                "above. Raise the threshold."
            )
        kept.append((first[is_pair], second[is_pair], cosine[is_pair]))
    first, second, cosine = (np.concatenate(part) for part in zip(*kept, strict=True))
    return Pairs(first, second, cosine, below, above, method, recall)


def _exact(rows: UnitRows, least: float) -> Iterator[Block]:
    """The pairs within each two blocks: two rows are compared once, where a search of all by all does it twice."""
    for start, x in rows.blocks(QUERY_ROWS):
        for other in range(start, rows.shape[0], QUERY_ROWS):
            y = x if other == start else rows.block(other, min(other + QUERY_ROWS, rows.shape[0]))
            cosine = x @ y.T
            first, second = np.nonzero(cosine >= least)
            if other == start:
                first, second = first[first < second], second[first < second]
            found = cosine[first, second]
            # Or two blocks of cosines would be in memory while the next one is made.
            del cosine
            yield first + start, second + other, found


def _within(index: Any, rows: UnitRows, least: float) -> Iterator[Block]:
    """The pairs that an inverted file finds when it is asked for the neighbours of the lower row."""
    for start, x in rows.blocks(QUERY_ROWS):
        ends, cosine, second = index.range_search(x, least)
        first = np.repeat(np.arange(start, start + len(x)), np.diff(ends.astype(np.int64)))
        forth = first < second
        yield first[forth], second[forth], cosine[forth]
