"""Reading a vector column of the shards into one array, as a view where Arrow returns it in one piece."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from frostbench.embedcache.storage.damage import reading, remedy
from frostbench.embedcache.storage.files import CacheError

BATCH_BYTES = 2**19


LITTLE: Mapping[str, str] = MappingProxyType({"float16": "<f2", "float32": "<f4"})
"""How numbers of each type of storage lie in a shard."""


def read_vectors(
    paths: Sequence[Path], name: str, dim: int, verify: bool = False, storage: str = "float16"
) -> np.ndarray:
    """One column of several shards as it is stored, float16 or float32 [N, dim], read-only.

    One shard is read by Arrow in one piece, which is viewed without a copy. Several are copied batch by batch into
    their places in one fresh array; a batch fits the processor's cache, so the copy hardly costs memory traffic.

    Raises:
        CacheError: a page's checksum or a vector's length is wrong, or (with `verify`) a vector is not finite.
    """
    if len(paths) == 1:
        with opened(paths[0], name, verify) as file:
            pieces = pieces_of(file.read([name]).column(name), dim, paths[0], storage)
        x = pieces[0] if len(pieces) == 1 else np.concatenate([np.empty((0, dim), LITTLE[storage]), *pieces])
    else:
        x = copy_vectors(paths, name, dim, verify, storage)
    if verify:
        check_finite(x, name, paths[0])
    x.flags.writeable = False
    return x


def check_finite(x: np.ndarray, name: str, path: Path, first_row: int = 0) -> None:
    """Refuse vectors [n, D] of a column, the first of which is a row of that number, unless all are finite.

    Raises:
        CacheError: one is not.
    """
    finite = np.isfinite(x)
    if not finite.all():
        row = first_row + int(np.argmin(finite.all(axis=1)))
        raise CacheError(f"stored vectors must be finite, however: row {row} of column {name!r} is not. {remedy(path)}")


def copy_vectors(
    paths: Sequence[Path], name: str, dim: int, verify: bool = False, storage: str = "float16"
) -> np.ndarray:
    """One column of several shards, copied into one fresh array [N, dim] of the type in which it is stored.

    One thread does it: two were measured to take as long, for both wait for the same memory. The array lies in Arrow's
    memory pool, which hands freed pages out again; numpy asks the system for each large array anew.
    """
    n = 0
    for path in paths:
        with reading(path):
            n += pq.read_metadata(path).num_rows
    width = np.dtype(LITTLE[storage]).itemsize * dim
    out = np.frombuffer(pa.allocate_buffer(n * width), dtype=LITTLE[storage]).reshape(n, dim)
    row = 0
    for path in paths:
        with opened(path, name, verify) as file:
            for batch in file.iter_batches(max(1, BATCH_BYTES // width), columns=[name], use_threads=False):
                for piece in pieces_of(pa.chunked_array([batch.column(0)]), dim, path, storage):
                    out[row : row + len(piece)] = piece
                    row += len(piece)
    return out


@contextmanager
def opened(path: Path, name: str, verify: bool = False) -> Iterator[pq.ParquetFile]:
    """A shard open for reading; what Arrow finds wrong in it is told with what to do."""
    try:
        with pq.ParquetFile(path, memory_map=True, page_checksum_verification=verify) as file:
            if name not in file.schema_arrow.names:
                raise CacheError(f"every shard holds each column, however: {path} lacks {name!r}. {remedy(path)}")
            yield file
    except (OSError, pa.ArrowException) as error:
        raise CacheError(
            f"column {name!r} of {path.name} must be readable, however: {path} is damaged ({str(error).rstrip('.')}). "
            f"{remedy(path)}"
        ) from error


def pieces_of(column: pa.ChunkedArray, dim: int, path: Path, storage: str = "float16") -> list[np.ndarray]:
    """Views of the chunks of a fixed-size binary column as float16 or float32 [n, dim]."""
    kind = np.dtype(LITTLE[storage])
    width = kind.itemsize * dim
    if column.type != pa.binary(width):
        raise CacheError(
            f"a vector of {dim} {storage} is {width} bytes, however: the shard holds {column.type}. {remedy(path)}"
        )
    if column.null_count:
        raise CacheError(f"every row has a vector, however: {column.null_count} of {path} have none. {remedy(path)}")
    return [
        np.frombuffer(chunk.buffers()[1], kind, count=len(chunk) * dim, offset=chunk.offset * width).reshape(-1, dim)
        for chunk in column.chunks
        if len(chunk)
    ]
