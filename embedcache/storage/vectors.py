"""Reading a vector column of several shards into one array, without a copy if there is only one shard."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from frostbench.embedcache.counting import things
from frostbench.embedcache.storage.damage import reading, remedy
from frostbench.embedcache.storage.files import CacheError

BATCH_BYTES = 2**19


LITTLE: Mapping[str, str] = MappingProxyType({"float16": "<f2", "float32": "<f4"})
"""numpy dtype of each storage type, little-endian."""


def read_vectors(
    paths: Sequence[Path], name: str, dim: int, verify: bool = False, storage: str = "float16"
) -> np.ndarray:
    """Read a column of several shards in its stored dtype, float16 or float32 [N, dim], as a read-only array.

    A single shard is read by Arrow in one chunk and viewed without a copy. Several shards are copied batch by batch
    into one array; a batch fits into the CPU cache, so the copy adds little memory traffic.

    Raises:
        CacheError: a shard is unreadable, a vector's length is wrong, or (with `verify`) a page's checksum is wrong or
            a vector is not finite.
    """
    if len(paths) == 1:
        with opened(paths[0], name, verify) as file:
            pieces = pieces_of(file.read([name]).column(name), dim, paths[0], storage)
        x = pieces[0] if len(pieces) == 1 else np.concatenate([np.empty((0, dim), LITTLE[storage]), *pieces])
        if verify:
            check_finite(x, name, paths[0])
    else:
        x = copy_vectors(paths, name, dim, verify, storage)
    x.flags.writeable = False
    return x


def check_finite(x: np.ndarray, name: str, path: Path, first_row: int = 0) -> None:
    """Check that vectors [n, D] of a column are finite; `first_row` is the number of the first of them in its shard.

    Raises:
        CacheError: a vector is not finite.
    """
    finite = np.isfinite(x)
    if not finite.all():
        row = first_row + int(np.argmin(finite.all(axis=1)))
        raise CacheError(
            f"Stored vectors must be finite, but row {row} (counted from 0) of column {name!r} in {path} is not. "
            f"{remedy(path)}"
        )


def copy_vectors(
    paths: Sequence[Path], name: str, dim: int, verify: bool = False, storage: str = "float16"
) -> np.ndarray:
    """Copy a column of several shards into a new array [N, dim] of its stored dtype.

    A single thread is used: two took as long, because both wait for the same memory. The array is allocated in Arrow's
    memory pool, which reuses freed pages; numpy requests each large array from the system.
    """
    n = 0
    for path in paths:
        with reading(path):
            n += pq.read_metadata(path).num_rows
    width = np.dtype(LITTLE[storage]).itemsize * dim
    out = np.frombuffer(pa.allocate_buffer(n * width), dtype=LITTLE[storage]).reshape(n, dim)
    row = 0
    for path in paths:
        first = row
        with opened(path, name, verify) as file:
            for batch in file.iter_batches(max(1, BATCH_BYTES // width), columns=[name], use_threads=False):
                for piece in pieces_of(pa.chunked_array([batch.column(0)]), dim, path, storage):
                    out[row : row + len(piece)] = piece
                    row += len(piece)
        if verify:
            check_finite(out[first:row], name, path)
    return out


@contextmanager
def opened(path: Path, name: str, verify: bool = False) -> Iterator[pq.ParquetFile]:
    """Open a shard for reading; turn Arrow's errors into CacheError with advice."""
    try:
        with pq.ParquetFile(path, memory_map=True, page_checksum_verification=verify) as file:
            if name not in file.schema_arrow.names:
                raise CacheError(f"Every shard must contain every column, but {path} lacks {name!r}. {remedy(path)}")
            yield file
    except (OSError, pa.ArrowException) as error:
        raise CacheError(
            f"Column {name!r} must be readable, but {path} is damaged ({str(error).rstrip('.')}). {remedy(path)}"
        ) from error


def pieces_of(column: pa.ChunkedArray, dim: int, path: Path, storage: str = "float16") -> list[np.ndarray]:
    """Return the chunks of a fixed-size binary column as float16 or float32 views [n, dim]."""
    kind = np.dtype(LITTLE[storage])
    width = kind.itemsize * dim
    if column.type != pa.binary(width):
        numbers = things(dim, f"{storage} number", f"{storage} numbers")
        raise CacheError(f"A vector of {numbers} has {width} bytes, but {path} holds {column.type}. {remedy(path)}")
    if column.null_count:
        rows = things(column.null_count, f"row of {path} has", f"rows of {path} have")
        raise CacheError(f"Every row must have a vector, but {rows} none. {remedy(path)}")
    return [
        np.frombuffer(chunk.buffers()[1], kind, count=len(chunk) * dim, offset=chunk.offset * width).reshape(-1, dim)
        for chunk in column.chunks
        if len(chunk)
    ]
