"""Groups of rows that show the same: byte-identical copies and near-copies, joined however long the chain."""

import numpy as np

from frostbench.embedcache.index.pairs import Pairs, near_pairs
from frostbench.embedcache.index.rows import Numbers, column_of
from frostbench.embedcache.index.search import Method
from frostbench.embedcache.table import FeatureTable

NEAR = 0.98
"""Default cosine from which two images are near-copies.

Measured with EfficientNet-Lite0 on groceries, coins, blood cells and plankton (docs/inspect.md): of images saved again
as JPEG of quality 90, 75 to 100 in 100 keep it, while 2 to 10 of some thousand images of each data set have another as
close, always of the same class. Smaller or strongly compressed copies lie among different images of one class, so no
threshold finds them without those.
"""


def distinct(content: np.ndarray) -> tuple[Numbers, Numbers]:
    """The first row of each distinct content, rising, and for each row [N] the number of its content.

    >>> [part.tolist() for part in distinct(np.array(["f", "a", "f"]))]
    [[0, 1], [0, 1, 0]]
    """
    first, number = np.unique(content, return_index=True, return_inverse=True)[1:]
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order].astype(np.int64), place[number].astype(np.int64)


def content_pairs(table: FeatureTable, threshold: float, column: str | None = None, method: Method = "auto") -> Pairs:
    """The near pairs of distinct contents; of byte-identical images only the first row takes part.

    The numbers in the result are those of `distinct`, not of rows.

    Raises:
        ValueError: the threshold is not above 0, or above 1.
        CacheError: the table has no such column, or the threshold is so low that nearly everything is a pair.
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"a cosine threshold lies above 0 and is at most 1, however: {threshold} came. Try {NEAR}.")
    return near_pairs(column_of(table, column)[1].only(distinct(table.content)[0]), threshold, method)


def joined(count: int, first: Numbers, second: Numbers) -> Numbers:
    """The number of each of `count` things' group, where pairs are of one group, counted in the order of the things.

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
    """For each row the number of its group of copies and near-copies, int64 [N]; most rows are alone in theirs.

    Raises:
        ValueError: as `content_pairs`.
    """
    pairs = content_pairs(table, threshold, column, method)
    first, number = distinct(table.content)
    return joined(len(first), pairs.first, pairs.second)[number]


def joined_groups(groups: Numbers, others: Numbers) -> Numbers:
    """The number of each row's group [N], where rows that share a number of either kind are of one group.

    >>> joined_groups(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 2])).tolist()
    [0, 0, 0, 1]
    """
    first, number = distinct(others)
    size = int(groups.max(initial=-1)) + 1
    return distinct(joined(size + len(first), groups, size + number)[groups])[1]
