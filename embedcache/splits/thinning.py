"""Leaving out training rows so that class sizes fall exponentially: a long tail of a chosen ratio."""

import math

import numpy as np

from frostbench.embedcache.storage.files import CacheError

UNUSED = "unused"
"""Role of a training row that is left out."""
_STREAM = 3
"""Random stream of the draws; the seed's first three belong to the cuts."""


def thin_classes(labels: np.ndarray, roles: np.ndarray, ratio: float, seed: int) -> tuple[np.ndarray, str]:
    """Leave out training rows until the largest class has `ratio` times as many rows as the smallest.

    Classes are ranked by their training rows, largest first. The class of rank r of C gets m·ratio^(-r / (C - 1))
    training rows, the profile of CIFAR-LT (Cui et al., CVPR 2019; Cao et al., NeurIPS 2019), where m is the largest
    size for which every class has enough rows. Data that are already more imbalanced than `ratio` thus lose rows of
    large classes. The rows of other roles stay. Under the same seed, a class of fewer rows keeps a subset of the rows
    it keeps when it has more.

    Args:
        labels: int [N], in an order that does not depend on the table's.
        roles: str [N].
        ratio: size of the largest class divided by that of the smallest, at least 1.
        seed: seed of the rows that stay.

    Returns:
        The roles [N], with "unused" for rows that are left out, and a note with the sizes.

    Raises:
        CacheError: fewer than two classes have training rows, or the smallest class would get less than one row.
    """
    is_train = roles == "train"
    classes, counts = np.unique(labels[is_train], return_counts=True)
    if len(classes) < 2:
        raise CacheError(
            f"split.imbalance needs at least two classes with training rows, got {len(classes)}. Leave it out."
        )
    kept = _sizes(counts, ratio)
    sizes = np.zeros(int(labels.max()) + 1, dtype=np.int64)
    sizes[classes] = kept
    draws = np.random.default_rng([seed, _STREAM]).random(len(labels))
    rows = np.flatnonzero(is_train)
    rows = rows[np.lexsort((draws[rows], labels[rows]))]
    starts = np.searchsorted(labels[rows], labels[rows])
    dropped = rows[np.arange(len(rows)) - starts >= sizes[labels[rows]]]
    thinned = roles.copy()
    thinned[dropped] = UNUSED
    return thinned, (
        f"Long tail made by split.imbalance={ratio:g}: {kept.sum()} of {len(rows)} training rows stay, "
        f"{kept.max()} of the largest class and {kept.min()} of the smallest."
    )


def _sizes(counts: np.ndarray, ratio: float) -> np.ndarray:
    """Return the rows [C] that classes of these sizes [C] keep; see `thin_classes`."""
    order = np.argsort(-counts, kind="stable")
    shares = ratio ** (-np.arange(len(counts)) / (len(counts) - 1))
    largest = float((counts[order] / shares).min())
    if largest / ratio < 1:
        most = math.floor(largest_ratio(counts) + 1e-9)
        raise CacheError(
            f"The smallest class must keep at least one training row, but with split.imbalance={ratio:g} it would get "
            f"{largest / ratio:.2f}. These classes allow at most {most}; lower the ratio, or leave out small classes."
        )
    sizes = np.zeros(len(counts), dtype=np.int64)
    sizes[order] = np.floor(largest * shares + 1e-9).astype(np.int64)
    return sizes


def largest_ratio(counts: np.ndarray) -> float:
    """Return the largest ratio at which every class still keeps one row, for the rows [C] of each class.

    >>> round(largest_ratio(np.array([100, 100, 100])), 6)
    100.0
    """
    ordered = -np.sort(-counts).astype(np.float64)
    below = np.arange(len(ordered)) / (len(ordered) - 1)
    # A ratio t is possible if counts[r]·t^below[r] / t >= 1 for every rank r but the last: t^(1 - below) <= counts.
    return float((ordered[:-1] ** (1 / (1 - below[:-1]))).min())
