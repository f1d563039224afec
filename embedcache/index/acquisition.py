"""Query strategies of active learning: which unlabelled rows to label next, given vectors and class probabilities."""

import numpy as np
import numpy.typing as npt

from frostbench.embedcache.index.confident import Floats
from frostbench.embedcache.index.rows import Numbers, Vectors

NEIGHBOURS = 20
"""Neighbours that a row's typicality is averaged over (Hacohen et al., section 3.3)."""
MOST_CLUSTERS = 500
"""Largest number of clusters of `typical`, as in the paper."""
CANDIDATES = 10
"""Candidates per requested row of `uncertain_and_spread`; 10 to 50 are equally good in the paper (section 4.2)."""


def margin_uncertainty(p: Floats) -> Floats:
    """Return 1 minus the lead of the most probable class over the second one [N], in 0..1.

    Scheffer, Decomain and Wrobel, "Active hidden Markov models for information extraction", IDA 2001.

    Args:
        p: probabilities [N, C], C at least 2.

    >>> margin_uncertainty(np.array([[0.75, 0.25, 0.0], [0.5, 0.5, 0.0]])).tolist()
    [0.5, 1.0]
    """
    top = np.partition(p, -2, axis=1)[:, -2:]
    return np.asarray(1 - (top[:, 1] - top[:, 0]))


def entropy_uncertainty(p: Floats) -> Floats:
    """Return the entropy of each row's probabilities [N], in nats.

    Shannon, "A mathematical theory of communication", 1948.

    >>> entropy_uncertainty(np.array([[1.0, 0.0], [0.5, 0.5]])).round(4).tolist()
    [0.0, 0.6931]
    """
    from scipy.special import entr

    return np.asarray(entr(p).sum(axis=1))


def k_center(x: Vectors, known: npt.NDArray[np.bool_], count: int) -> Numbers:
    """Return the rows that greedy k-center chooses, in order: each is the farthest from all known and chosen rows.

    Without known rows, the first is the row farthest from the mean. Sener and Savarese, "Active learning for
    convolutional neural networks: a core-set approach", ICLR 2018, algorithm 1. Distances are Euclidean.

    Args:
        x: [N, D].
        known: rows that have a label, bool [N].
        count: at most the number of rows that are not known.
    """
    import faiss

    squares = np.einsum("nd,nd->n", x, x)
    if known.any():
        gap = np.maximum(faiss.knn(x, np.ascontiguousarray(x[known]), 1)[0][:, 0], 0)
    else:
        gap = np.square(x - x.mean(axis=0)).sum(axis=1)
    free, is_first = ~known, not known.any()
    chosen = list[int]()
    for _ in range(count):
        row = int(np.where(free, gap, -np.inf).argmax())
        distance = squares + squares[row] - 2 * (x @ x[row])
        gap = distance if is_first else np.minimum(gap, distance)
        free[row] = is_first = False
        chosen.append(row)
    return np.array(chosen, dtype=np.int64)


def badge(x: Vectors, p: Floats, count: int, rng: np.random.Generator) -> Numbers:
    """Return rows drawn by k-means++ on gradient embeddings, in order; the first has the longest gradient.

    The gradient of the cross-entropy of a linear softmax classifier at its own prediction is a ⊗ x with
    a = p - onehot(argmax p), so it is longer for less certain rows, and differs where they lie between other classes.
    Distances follow from |a ⊗ x - b ⊗ y|² = |a|²|x|² + |b|²|y|² - 2 (a·b)(x·y); no [N, C D] array is made.
    Ash, Zhang, Krishnamurthy, Langford and Agarwal, "Deep batch active learning by diverse, uncertain gradient lower
    bounds", ICLR 2020, algorithm 1.

    Args:
        x: unlabelled rows [N, D], as the classifier reads them.
        p: their probabilities [N, C].
        count: at most N.
        rng: draws all but the first row.
    """
    a = p.astype(np.float32)
    a[np.arange(len(p)), p.argmax(axis=1)] -= 1
    size = np.einsum("nc,nc->n", a, a) * np.einsum("nd,nd->n", x, x)
    gap, free = size.astype(np.float64), np.ones(len(x), dtype=bool)
    chosen = list[int]()
    for _ in range(count):
        weight = np.where(free, np.maximum(gap, 0), 0)
        if not weight.sum() > 0:  # the remaining gradients equal chosen ones
            weight = free.astype(np.float64)
        row = int(weight.argmax()) if not chosen else int(rng.choice(len(x), p=weight / weight.sum()))
        distance = size + size[row] - 2 * (a @ a[row]) * (x @ x[row])
        gap = distance if not chosen else np.minimum(gap, distance)
        free[row] = False
        chosen.append(row)
    return np.array(chosen, dtype=np.int64)


def typical(x: Vectors, known: npt.NDArray[np.bool_], count: int, seed: int) -> Numbers:
    """Return the most typical row of each of the largest clusters without a known row, the largest cluster first.

    Rows are clustered by k-means into as many clusters as there are known and requested rows, at most 500. A row is
    typical if its nearest neighbours in its cluster are near. When every cluster has a known or chosen row, the
    clusters with the fewest of them come next. Hacohen, Dekel and Weinshall, "Active learning on a budget: opposite
    strategies suit high and low budgets" (TypiClust), ICML 2022, algorithm 1.

    Args:
        x: [N, D].
        known: rows that have a label, bool [N].
        count: at most the number of rows that are not known.
        seed: seed of the clusters.
    """
    clusters = min(int(known.sum()) + count, MOST_CLUSTERS)
    cluster = clusters_of(x, clusters, seed)
    held = np.bincount(cluster[known], minlength=clusters)
    left = np.bincount(cluster[~known], minlength=clusters)
    sizes, ranked = np.bincount(cluster, minlength=clusters), dict[int, Numbers]()
    chosen = list[int]()
    for _ in range(count):
        open_ones = np.flatnonzero(left > 0)
        best = open_ones[np.lexsort((-sizes[open_ones], held[open_ones]))[0]]
        if best not in ranked:
            rows = np.flatnonzero(cluster == best)
            ranked[best] = rows[np.argsort(-typicality(x[rows]), kind="stable")]
            ranked[best] = ranked[best][~known[ranked[best]]]
        chosen.append(int(ranked[best][0]))
        ranked[best] = ranked[best][1:]
        held[best] += 1
        left[best] -= 1
    return np.array(chosen, dtype=np.int64)


def uncertain_and_spread(x: Vectors, uncertainty: Floats, count: int, seed: int) -> Numbers:
    """Return the most uncertain row of each of `count` clusters of the most uncertain rows, the most uncertain first.

    The `10 count` most uncertain rows are clustered by k-means with their uncertainty as weight, as in Zhdanov,
    "Diverse mini-batch active learning", arXiv 1901.05954, 2019, section 3.

    Args:
        x: unlabelled rows [N, D].
        uncertainty: of each row, at least 0, [N].
        count: at most N.
        seed: seed of the clusters.
    """
    likely = np.argsort(-uncertainty, kind="stable")[: CANDIDATES * count]
    weight = uncertainty[likely].astype(np.float32)
    cluster = clusters_of(x[likely], count, seed, weight if weight.any() else None)
    _, first = np.unique(cluster, return_index=True)
    rest = np.setdiff1d(np.arange(len(likely)), first)
    return np.asarray(likely[np.concatenate([np.sort(first), rest])[:count]])


def clusters_of(x: Vectors, count: int, seed: int, weight: Vectors | None = None) -> Numbers:
    """Return the k-means cluster of each row [N], from 0 to `count` - 1; some may be empty.

    Centres are computed from at most 256 rows per cluster.
    """
    import faiss

    rows = np.ascontiguousarray(x, dtype=np.float32)
    kmeans = faiss.Kmeans(x.shape[1], count, niter=20, seed=seed, min_points_per_centroid=1)
    kmeans.train(rows, weights=weight)
    return np.asarray(kmeans.assign(rows)[1], dtype=np.int64)


def typicality(x: Vectors) -> Floats:
    """Return the inverse of each row's mean Euclidean distance to its (up to 20) nearest other rows [N].

    >>> typicality(np.array([[0.0], [1.0], [3.0]])).round(3).tolist()
    [0.5, 0.667, 0.4]
    """
    import faiss

    if len(x) == 1:
        return np.ones(1)
    rows, k = np.ascontiguousarray(x, dtype=np.float32), min(NEIGHBOURS, len(x) - 1)
    squares = faiss.knn(rows, rows, k + 1)[0]  # with the row itself, at distance 0
    return np.asarray(k / np.maximum(np.sqrt(np.maximum(squares, 0)).sum(axis=1), 1e-7), dtype=np.float64)
