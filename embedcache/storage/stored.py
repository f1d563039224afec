"""A vector column on disk whose rows are read on demand, by row group."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from frostbench.embedcache.storage.damage import remedy
from frostbench.embedcache.storage.digests import check_digest, check_digests
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.storage.vectors import BATCH_BYTES, check_finite, opened, pieces_of


@dataclass(frozen=True)
class _RowGroup:
    """Row group of a shard with the table rows start to stop - 1, and the shard's SHA-256 from the manifest."""

    path: Path
    place: int
    start: int
    stop: int
    sha256: str | None


@dataclass(frozen=True, eq=False)
class StoredColumn:
    """Rows of a vector column of a complete cache, in listing order.

    Attributes:
        name: name of the column.
        dim: D.
        tokens: T for a token column; None for plain vectors.
        storage: float16 or float32.
        groups: row groups of all shards, in order.
        chosen: int64 [N] increasing row numbers of the table; None means all rows.
    """

    name: str
    dim: int
    groups: tuple[_RowGroup, ...]
    chosen: npt.NDArray[np.int64] | None = None
    tokens: int | None = None
    storage: str = "float16"

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, D), or (N, T, D) for a token column."""
        rows = self.groups[-1].stop if self.groups else 0
        count = rows if self.chosen is None else len(self.chosen)
        return (count, self.dim) if self.tokens is None else (count, self.tokens, self.dim)

    @property
    def width(self) -> int:
        """Numbers per row: D, or T times D."""
        return self.dim * (self.tokens or 1)

    @property
    def number_bytes(self) -> int:
        """Bytes per number."""
        return np.dtype(self.storage).itemsize

    def only(self, is_chosen: npt.NDArray[np.bool_]) -> "StoredColumn":
        """Return the column restricted to the rows where the mask [N] is true."""
        places = np.flatnonzero(is_chosen)
        return replace(self, chosen=places if self.chosen is None else self.chosen[places])

    def read(self, start: int, stop: int) -> npt.NDArray[np.floating[Any]]:
        """Read the rows start to stop - 1 in their stored dtype, [stop - start, D] or [stop - start, T, D].

        Only the row groups that contain them are read, in batches of about half a megabyte up to the last requested
        row, so memory holds little more than the result. Before the first row of a shard is read, its SHA-256 is
        compared with the manifest.

        Raises:
            CacheError: a shard is missing, damaged or changed.
        """
        wanted = np.arange(start, stop) if self.chosen is None else self.chosen[start:stop]
        out = np.empty((len(wanted), self.width), self.storage)
        done = 0
        while done < len(wanted):
            group = self.groups[bisect_right(self.groups, int(wanted[done]), key=lambda g: g.stop)]
            upto = int(np.searchsorted(wanted, group.stop))
            self._read_group(group, wanted[done:upto] - group.start, out[done:upto])
            done = upto
        return out.reshape(len(wanted), *self.shape[1:])

    def _read_group(
        self, group: _RowGroup, wanted: npt.NDArray[np.int64], out: npt.NDArray[np.floating[Any]], verify: bool = False
    ) -> None:
        """Copy rows [n] of a row group, numbered within it, to out [n, width]."""
        done = 0
        if group.sha256 is not None:
            check_digest(group.path, group.sha256)
        with opened(group.path, self.name, verify) as file:
            for first, x in self._batches(file, group):
                upto = int(np.searchsorted(wanted, first + len(x)))
                out[done:upto] = x[wanted[done:upto] - first]
                done = upto
                if done == len(wanted):
                    return
        raise CacheError(
            f"Row group {group.place} of {group.path.name} must have {group.stop - group.start} rows, but {group.path} "
            f"has fewer. {remedy(group.path)}"
        )

    def _batches(self, file: pq.ParquetFile, group: _RowGroup) -> Iterator[tuple[int, np.ndarray]]:
        """Yield consecutive views [n, width] of a row group, each with the number of its first row."""
        first, rows = 0, max(1, BATCH_BYTES // (self.number_bytes * self.width))
        for batch in file.iter_batches(rows, row_groups=[group.place], columns=[self.name], use_threads=False):
            for x in pieces_of(pa.chunked_array([batch.column(0)]), self.width, group.path, self.storage):
                yield first, x
                first += len(x)

    def check(self) -> None:
        """Compare the SHA-256 of every shard with the manifest now, instead of when its rows are read.

        Raises:
            CacheError: a shard is missing or changed.
        """
        stated = {group.path: group.sha256 for group in self.groups if group.sha256 is not None}
        check_digests(list(stated), list(stated.values()))

    def verify(self) -> None:
        """Read every row and verify the checksum of every page.

        Raises:
            CacheError: a page's checksum is wrong, or a vector is not finite.
        """
        starts = dict[Path, int]()
        for group in self.groups:
            start = starts.setdefault(group.path, group.start)
            x = np.empty((group.stop - group.start, self.width), self.storage)
            self._read_group(group, np.arange(len(x)), x, verify=True)
            check_finite(x, self.name, group.path, group.start - start)


def stored_column(
    paths: Sequence[Path],
    name: str,
    dim: int,
    tokens: int | None = None,
    storage: str = "float16",
    digests: Sequence[str] | None = None,
) -> StoredColumn:
    """Open a column of several shards, reading only the sizes of their row groups.

    Args:
        paths: the shards.
        name: name of the column.
        dim: D.
        tokens: T for a token column.
        storage: float16 or float32.
        digests: SHA-256 that each shard must have before its rows are read; None skips the check.

    Raises:
        CacheError: a shard is missing or damaged, or lacks the column.
    """
    found, row = [], 0
    stated: Sequence[str | None] = [None] * len(paths) if digests is None else digests
    for path, digest in zip(paths, stated, strict=True):
        with opened(path, name) as file:
            pieces_of(pa.chunked_array([], file.schema_arrow.field(name).type), dim * (tokens or 1), path, storage)
            sizes = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        edges = list(accumulate(sizes, initial=row))
        found += [_RowGroup(path, i, edges[i], edges[i + 1], digest) for i, size in enumerate(sizes) if size > 0]
        row = edges[-1]
    return StoredColumn(name, dim, tuple(found), tokens=tokens, storage=storage)
