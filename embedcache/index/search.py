"""Nearest-neighbour search by cosine: exact, block by block, or with an inverted file index of measured recall."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from frostbench.embedcache.index.rows import Numbers, UnitRows, Vectors

Method = Literal["auto", "exact", "ivf"]
EXACT_PAIRS = 100_000**2
"""Maximum number of pairs for which `auto` uses exact search: a few minutes per 1000 dimensions."""
QUERY_ROWS = 4096
BASE_ROWS = 16_384
"""Number of query rows, and of searched rows, in memory as float32 at a time."""
SAMPLE_ROWS = 256
RECALL = 0.98
"""Target share of a sample's exact neighbours, which determines how many lists an inverted file index probes."""
TRAIN_ROWS_PER_LIST = 40
SEED = 1234
DIGITS = 6
"""Cosines that agree to this many digits count as equal; the rest is float32 rounding."""


@dataclass(frozen=True, eq=False)
class Found:
    """The k nearest rows of each query.

    Attributes:
        cosine: float32 [Q, k], decreasing; -inf if there is no row.
        rows: int64 [Q, k]; -1 if there is no row.
        method: exact or ivf.
        recall: share of a sample's exact neighbours that were found; 1 for exact search.
    """

    cosine: Vectors
    rows: Numbers
    method: str
    recall: float


def nearest(queries: UnitRows, base: UnitRows, k: int, *, own: Numbers | None = None, method: Method = "auto") -> Found:
    """Find the k rows of the base with the largest cosine to each query.

    Exact search processes the base block by block and keeps the best results so far, so it needs memory for two blocks
    and the result. Equal cosines are ordered by row; if more rows tie than fit, it is undefined which are returned.

    Args:
        queries: [Q, D].
        base: [N, D].
        k: neighbours per query, 1 to N, or to N - 1 if queries are rows of the base.
        own: int [Q], the base row of each query, which is excluded; None if queries are not rows of the base.
        method: exact, ivf (an inverted file index), or auto (by the number of pairs).

    Raises:
        ValueError: there are fewer than k other rows.
    """
    most = base.shape[0] - (own is not None)
    if not 1 <= k <= most:
        raise ValueError(f"k must be between 1 and {most} for a table of {base.shape[0]} rows, got {k}. Change k.")
    if not is_exact(queries.shape[0] * base.shape[0], method):
        index, recall = inverted_file(base)
        parts = [_within(index, x, k, _part(own, start, len(x))) for start, x in queries.blocks(QUERY_ROWS)]
        return Found(*_joined(parts), "ivf", recall)
    parts = [_exact(x, base, k, _part(own, start, len(x))) for start, x in queries.blocks(QUERY_ROWS)]
    return Found(*_joined(parts), "exact", 1.0)


def is_exact(pairs: int, method: Method) -> bool:
    """Return whether exact search is used for this many pairs."""
    return method == "exact" or pairs <= 1 or (method == "auto" and pairs <= EXACT_PAIRS)


def inverted_file(base: UnitRows) -> tuple[Any, float]:
    """Build a faiss inverted file index, tune the number of probed lists on a sample, and return both with the recall.

    The index takes 4 bytes per number in the base. k-means uses evenly spaced rows and a fixed seed.
    """
    import faiss

    count, dim = base.shape
    lists = max(1, min(round(2 * count**0.5), count // TRAIN_ROWS_PER_LIST))
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dim), dim, lists, faiss.METRIC_INNER_PRODUCT)
    index.cp.seed, index.cp.spherical = SEED, True
    index.train(_spaced(base, lists * TRAIN_ROWS_PER_LIST)[1])
    for _, x in base.blocks(BASE_ROWS):
        index.add(x)
    return index, _tuned(index, base, lists)


def _tuned(index: Any, base: UnitRows, lists: int) -> float:
    """Double the number of probed lists until the sample reaches the target recall; return the recall."""
    rows, sample = _spaced(base, SAMPLE_ROWS)
    k = min(10, base.shape[0] - 1)
    wanted = _exact(sample, base, k, rows)[1]
    probes, recall = min(8, lists), 0.0
    while True:
        index.nprobe = probes
        found = _within(index, sample, k, rows)[1]
        recall = float(np.mean([np.isin(a, b).mean() for a, b in zip(wanted, found, strict=True)]))
        if recall >= RECALL or probes == lists:
            return recall
        probes = min(2 * probes, lists)


def _spaced(base: UnitRows, most: int) -> tuple[Numbers, Vectors]:
    """Return the numbers and vectors of at most this many evenly spaced rows."""
    count = base.shape[0]
    rows = np.unique(np.linspace(0, count - 1, min(most, count)).astype(np.int64))
    return rows, base.only(rows).block(0, len(rows))


def _exact(queries: Vectors, base: UnitRows, k: int, own: Numbers | None) -> tuple[Vectors, Numbers]:
    import faiss

    best = (np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64))
    index = faiss.IndexFlatIP(base.shape[1])
    for start, x in base.blocks(BASE_ROWS):
        index.reset()
        index.add(x)
        cosine, rows = index.search(queries, min(k + 1, len(x)))
        best = _best(np.hstack([best[0], cosine]), np.hstack([best[1], rows + start]), k, own)
    return best


def _within(index: Any, queries: Vectors, k: int, own: Numbers | None) -> tuple[Vectors, Numbers]:
    cosine, rows = index.search(queries, k + 1)
    return _best(cosine, rows, k, own)


def _best(cosine: Vectors, rows: Numbers, k: int, own: Numbers | None) -> tuple[Vectors, Numbers]:
    """Return the k best of each query, excluding the query itself."""
    absent = rows < 0
    if own is not None:
        absent |= rows == own[:, None]
    cosine, rows = np.where(absent, -np.inf, cosine).astype(np.float32), np.where(absent, -1, rows)
    last = np.where(absent, np.iinfo(np.int64).max, rows)
    order = np.lexsort((last, -cosine.round(DIGITS)), axis=1)[:, :k]
    return np.take_along_axis(cosine, order, axis=1), np.take_along_axis(rows, order, axis=1)


def _part(own: npt.NDArray[np.int64] | None, start: int, count: int) -> Numbers | None:
    return None if own is None else own[start : start + count]


def _joined(parts: list[tuple[Vectors, Numbers]]) -> tuple[Vectors, Numbers]:
    return np.concatenate([cosine for cosine, _ in parts]), np.concatenate([rows for _, rows in parts])
