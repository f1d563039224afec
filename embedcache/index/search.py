"""Nearest rows by cosine: exact block by block, or in an inverted file whose recall is measured."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from frostbench.embedcache.index.rows import Numbers, UnitRows, Vectors

Method = Literal["auto", "exact", "ivf"]
EXACT_PAIRS = 100_000**2
"""Most pairs of rows that are compared one by one where the method is auto: some minutes for each 1000 dimensions."""
QUERY_ROWS = 4096
BASE_ROWS = 16_384
"""Rows that are float32 at a time, of those that ask and of those that are searched."""
SAMPLE_ROWS = 256
RECALL = 0.98
"""An inverted file looks into as many lists as it takes to find this share of a sample's exact neighbours."""
TRAIN_ROWS_PER_LIST = 40
SEED = 1234
DIGITS = 6
"""Cosines that agree to so many digits are equal: the rest is rounding of float32."""


@dataclass(frozen=True, eq=False)
class Found:
    """The k nearest rows of each query.

    Attributes:
        cosine: float32 [Q, k], falling; -inf where there is no row.
        rows: int64 [Q, k]; -1 where there is no row.
        method: exact or ivf.
        recall: share of a sample's exact neighbours that were found; 1 where the search is exact.
    """

    cosine: Vectors
    rows: Numbers
    method: str
    recall: float


def nearest(queries: UnitRows, base: UnitRows, k: int, *, own: Numbers | None = None, method: Method = "auto") -> Found:
    """The k rows of the base with the largest cosine to each query.

    Exact search adds the base block by block to an inner-product index and keeps the best so far, so its memory is
    that of two blocks and of the result. Among equal cosines the row listed first comes first; where more rows than
    fit are equally near, which of them are found is open.

    Args:
        queries: [Q, D].
        base: [N, D].
        k: neighbours of each query, 1 to N, or to N - 1 where queries are rows of the base.
        own: int [Q], the row of the base that a query is, which is not its neighbour; None where it is none.
        method: exact, ivf (an inverted file), or by the number of pairs.

    Raises:
        ValueError: there are fewer than k rows to find.
    """
    most = base.shape[0] - (own is not None)
    if not 1 <= k <= most:
        raise ValueError(
            f"k must lie in 1..{most} for a table of {base.shape[0]} rows, however: k={k}. Choose another."
        )
    if not is_exact(queries.shape[0] * base.shape[0], method):
        index, recall = inverted_file(base)
        parts = [_within(index, x, k, _part(own, start, len(x))) for start, x in queries.blocks(QUERY_ROWS)]
        return Found(*_joined(parts), "ivf", recall)
    parts = [_exact(x, base, k, _part(own, start, len(x))) for start, x in queries.blocks(QUERY_ROWS)]
    return Found(*_joined(parts), "exact", 1.0)


def is_exact(pairs: int, method: Method) -> bool:
    """Whether so many pairs of rows are compared one by one."""
    return method == "exact" or pairs <= 1 or (method == "auto" and pairs <= EXACT_PAIRS)


def inverted_file(base: UnitRows) -> tuple[Any, float]:
    """A faiss inverted file of all rows, with the lists it looks into chosen by the recall on a sample, and the recall.

    Its memory is 4 bytes for each number of the base; k-means sees an evenly spaced sample of rows, and its seed is
    fixed.
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
    """Double the lists looked into until the sample's recall is reached, or all are; returns the recall."""
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
    """Evenly spaced rows, at most so many: their numbers and their vectors."""
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
    """The k best of each line, the row itself left out."""
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
