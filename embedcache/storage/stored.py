"""A vector column that stays on disk: its rows are read when they are asked for, row group by row group."""

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
    """Rows start to stop - 1 of the table: a row group of a shard, whose SHA-256 its manifest states."""

    path: Path
    place: int
    start: int
    stop: int
    sha256: str | None


@dataclass(frozen=True, eq=False)
class StoredColumn:
    """Rows of a vector column of a finished cache, in listing order.

    Attributes:
        name: of the column.
        dim: D.
        tokens: T of a column of tokens; None for plain vectors.
        storage: float16 or float32.
        groups: the row groups of all shards, in order.
        chosen: which rows of the table these are, int64 [N], rising; None means all.
    """

    name: str
    dim: int
    groups: tuple[_RowGroup, ...]
    chosen: npt.NDArray[np.int64] | None = None
    tokens: int | None = None
    storage: str = "float16"

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows N and dimensions D, with the tokens T between them where there are any."""
        rows = self.groups[-1].stop if self.groups else 0
        count = rows if self.chosen is None else len(self.chosen)
        return (count, self.dim) if self.tokens is None else (count, self.tokens, self.dim)

    @property
    def width(self) -> int:
        """Numbers in a row: D, or T times D."""
        return self.dim * (self.tokens or 1)

    @property
    def number_bytes(self) -> int:
        """Bytes that one number takes."""
        return np.dtype(self.storage).itemsize

    def only(self, is_chosen: npt.NDArray[np.bool_]) -> "StoredColumn":
        """The rows of these [N] for which the mask [N] is true."""
        places = np.flatnonzero(is_chosen)
        return replace(self, chosen=places if self.chosen is None else self.chosen[places])

    def read(self, start: int, stop: int) -> npt.NDArray[np.floating[Any]]:
        """Rows start to stop - 1 as they are stored, [stop - start, D], or [stop - start, T, D] of tokens.

        Only the row groups in which they lie are read, in batches of about half a megabyte up to the last row that is
        wanted, so that little more than the rows themselves is in memory. Before the first row of a shard is read, the
        shard's SHA-256 is compared with that of the manifest.

        Raises:
            CacheError: a shard is gone, damaged or has other bytes than were written.
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
        """Copy the wanted rows [n], counted within a row group, to out [n, width]."""
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
            f"row group {group.place} of {group.path.name} must hold {group.stop - group.start} rows, however: it ends "
            f"earlier in {group.path}. {remedy(group.path)}"
        )

    def _batches(self, file: pq.ParquetFile, group: _RowGroup) -> Iterator[tuple[int, np.ndarray]]:
        """Views [n, width] of a row group, one after the other, and the number of the first row of each."""
        first, rows = 0, max(1, BATCH_BYTES // (self.number_bytes * self.width))
        for batch in file.iter_batches(rows, row_groups=[group.place], columns=[self.name], use_threads=False):
            for x in pieces_of(pa.chunked_array([batch.column(0)]), self.width, group.path, self.storage):
                yield first, x
                first += len(x)

    def check(self) -> None:
        """Compare the SHA-256 of every shard with that of the manifest now, and not only when its rows are read.

        Raises:
            CacheError: a shard is gone or has other bytes than were written.
        """
        stated = {group.path: group.sha256 for group in self.groups if group.sha256 is not None}
        check_digests(list(stated), list(stated.values()))

    def verify(self) -> None:
        """Read every row, with the checksum of every page.

        Raises:
            CacheError: a page's checksum is wrong, or a vector is not finite.
        """
        for group in self.groups:
            x = np.empty((group.stop - group.start, self.width), self.storage)
            self._read_group(group, np.arange(len(x)), x, verify=True)
            check_finite(x, self.name, group.path, group.start)


def stored_column(
    paths: Sequence[Path],
    name: str,
    dim: int,
    tokens: int | None = None,
    storage: str = "float16",
    digests: Sequence[str] | None = None,
) -> StoredColumn:
    """A column of several shards, of which nothing but the sizes of row groups is read.

    Args:
        paths: of the shards.
        name: of the column.
        dim: D.
        tokens: T of a column of tokens.
        storage: its type, float16 or float32.
        digests: SHA-256 that each shard must have before its rows are read; None compares none.

    Raises:
        CacheError: a shard is gone or damaged, or lacks the column.
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
