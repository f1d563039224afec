"""Connected groups of byte-identical copies and near-duplicates."""

import numpy as np

from frostbench.embedcache.index.pairs import Pairs, near_pairs
from frostbench.embedcache.index.rows import Numbers, column_of
from frostbench.embedcache.index.search import Method
from frostbench.embedcache.table import FeatureTable

NEAR = 0.98
"""Default cosine from which two images are near-duplicates.

Measured with EfficientNet-Lite0 on groceries, coins, blood cells and plankton (docs/inspect.md): 75 to 100 % of images
saved again as JPEG of quality 90 reach it, while 2 to 10 of several thousand images per data set have a different image
as close, always of the same class. Shrunk or strongly compressed copies are no closer than different images of one
class, so no threshold separates them.
"""


def distinct(content: np.ndarray) -> tuple[Numbers, Numbers]:
    """Return the first row of each distinct content, increasing, and the content number of each row [N].

    >>> [part.tolist() for part in distinct(np.array(["f", "a", "f"]))]
    [[0, 1], [0, 1, 0]]
    """
    first, number = np.unique(content, return_index=True, return_inverse=True)[1:]
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order].astype(np.int64), place[number].astype(np.int64)


def content_pairs(table: FeatureTable, threshold: float, column: str | None = None, method: Method = "auto") -> Pairs:
    """Find near pairs of distinct contents, using the first row of byte-identical images.

    The result refers to content numbers of `distinct`, not to rows.

    Raises:
        ValueError: the threshold is not above 0, or above 1.
        CacheError: the table has no such column, or the threshold is so low that nearly everything is a pair.
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"A cosine threshold must be above 0 and at most 1, got {threshold}. Try {NEAR}.")
    return near_pairs(column_of(table, column)[1].only(distinct(table.content)[0]), threshold, method)


def joined(count: int, first: Numbers, second: Numbers) -> Numbers:
    """Return the group number of each of `count` nodes connected by pairs, numbered in order of first appearance.

    >>> joined(4, np.array([0]), np.array([3])).tolist()
    [0, 1, 2, 0]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges = coo_array((np.ones(len(first), np.bool_), (first, second)), shape=(count, count))
    component = connected_components(edges, directed=False)[1]
    return distinct(component)[1]


def near_groups(
    table: FeatureTable, threshold: float = NEAR, column: str | None = None, method: Method = "auto"
) -> Numbers:
    """Return each row's group of duplicates and near-duplicates, int64 [N]; most groups have one row.

    Raises:
        ValueError: see `content_pairs`.
    """
    pairs = content_pairs(table, threshold, column, method)
    first, number = distinct(table.content)
    return joined(len(first), pairs.first, pairs.second)[number]


def joined_groups(groups: Numbers, others: Numbers) -> Numbers:
    """Merge two groupings: return group numbers [N] in which rows that share a group in either are together.

    >>> joined_groups(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 2])).tolist()
    [0, 0, 0, 1]
    """
    first, number = distinct(others)
    size = int(groups.max(initial=-1)) + 1
    return distinct(joined(size + len(first), groups, size + number)[groups])[1]
