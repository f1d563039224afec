"""Encoded images in a column of a Parquet file or Arrow stream, read through a cache of row groups."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frostbench.embedcache.decode import DecodeError

KEPT = 6
"""Number of row groups and of lists of their first rows in memory; decoding threads use two or three groups at once."""


def is_arrow(path: Path) -> bool:
    """Return whether a file is an Arrow stream rather than Parquet."""
    return path.suffix.lower() == ".arrow"


def group_edges(path: Path) -> list[int]:
    """Return the first row of each row group, followed by the total number of rows; an Arrow stream is one group."""
    if is_arrow(path):
        return [0, open_stream(path).num_rows]
    metadata = pq.read_metadata(path)
    return list(accumulate((metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)), initial=0))


def read_group(path: Path, column: str, group: int) -> pa.ChunkedArray:
    """Read the encoded images of one row group: the column itself, or its field `bytes`."""
    if is_arrow(path):
        images = open_stream(path).column(column)
    else:
        with pq.ParquetFile(path) as file:
            images = file.read_row_group(group, columns=[column], use_threads=False).column(column)
    return pc.struct_field(images, "bytes") if pa.types.is_struct(images.type) else images


def open_stream(path: Path) -> pa.Table:
    """Open an Arrow stream as a memory-mapped table."""
    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
        return stream.read_all()


def read_member(path: Path, column: str, row: int) -> bytes:
    """Read the encoded image in a row of a .parquet file, or of an .arrow file written by Hugging Face datasets.

    Raises:
        DecodeError: the file is missing, damaged or has no such row, or the row has no image.
    """
    try:
        value = _groups().value(path, column, row)
    except FileNotFoundError:
        raise DecodeError("the file does not exist") from None
    except (OSError, pa.ArrowException, LookupError) as error:
        raise DecodeError(f"row {row} cannot be read: {str(error).strip()}") from error
    if not value:
        raise DecodeError(f"row {row} holds no image")
    return value


@cache
def _groups() -> "RowGroups":
    """Return the row-group cache shared by all threads of this process."""
    return RowGroups(KEPT)


class RowGroups:
    """Cache of the image columns of recent row groups; each is read by one thread while others wait."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._lock = Lock()
        self._read: OrderedDict[tuple[Any, ...], Future[Any]] = OrderedDict()

    def value(self, path: Path, column: str, row: int) -> bytes | None:
        """Return the bytes of a row; None if it is null.

        Raises:
            IndexError: there is no such row.
            OSError, pa.ArrowException: the file cannot be read.
        """
        status = path.stat()
        key = (path, status.st_mtime_ns, status.st_size)
        edges: list[int] = self._once((*key, "edges"), lambda: group_edges(path))
        if not 0 <= row < edges[-1]:
            raise IndexError(f"the file has {edges[-1]} rows")
        group = bisect_right(edges, row) - 1
        images: pa.ChunkedArray = self._once((*key, column, group), lambda: read_group(path, column, group))
        found: bytes | None = images[row - edges[group]].as_py()
        return found

    def _once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """Return the cached value of a key, computing it once; failures are not cached."""
        with self._lock:
            future = self._read.get(key)
            is_first = future is None
            if future is None:
                future = self._read[key] = Future()
                while len(self._read) > self._kept:
                    self._read.popitem(last=False)
            self._read.move_to_end(key)
        if is_first:
            try:
                future.set_result(make())
            except BaseException as error:
                with self._lock:
                    self._read.pop(key, None)
                future.set_exception(error)
        return future.result()
