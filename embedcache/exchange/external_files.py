"""Reading matrices of vectors from .npy, .pt and Parquet files, without executing code in them."""

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch

from frostbench.embedcache.cells import column_texts
from frostbench.embedcache.counting import things
from frostbench.embedcache.given.vectors import read_vectors
from frostbench.embedcache.storage.files import CacheError


def read_vector_file(path: Path, column: str) -> dict[str, np.ndarray]:
    """Read the matrices [N, D] of a file by name; `column` names a matrix without a name in the file.

    Raises:
        CacheError: the file is missing, unreadable, or does not contain numeric matrices.
    """
    readers = {".npy": _read_npy, ".pt": _read_torch, ".pth": _read_torch, ".parquet": _read_parquet}
    if path.suffix.lower() not in readers or not path.is_file():
        raise CacheError(f"Vectors must be in a .npy, .pt or .parquet file, got {path}. Check the path.")
    try:
        arrays = readers[path.suffix.lower()](path, column)
    except (OSError, EOFError, RuntimeError, pickle.UnpicklingError, pa.ArrowException) as error:
        raise CacheError(
            f"A file of vectors must be readable without executing pickled code, but {path} is not: {error}. Save only "
            "the vectors, for example as .npy."
        ) from error
    if not arrays:
        raise CacheError(
            f"A file of vectors must contain a matrix [N, D], but {path.name} contains none. Check that it is the "
            "right file."
        )
    try:
        return {name: read_vectors(x, f"vectors ({name!r} of {path.name})") for name, x in arrays.items()}
    except ValueError as error:
        raise CacheError(str(error)) from error


def read_vector_keys(path: Path, name: str) -> list[str | None] | None:
    """Read the column `name` of a Parquet file of vectors as text, to match its rows with a manifest.

    Returns None if the file has no such column.

    Raises:
        CacheError: the file is unreadable.
        ValueError: the column holds neither text nor integers.
    """
    if path.suffix.lower() != ".parquet":
        return None
    try:
        with pq.ParquetFile(path) as file:
            if name not in file.schema_arrow.names:
                return None
            return column_texts(file.read([name])[name], name, str(path))
    except (OSError, pa.ArrowException) as error:
        raise CacheError(f"Cannot read vectors from {path}: {error}. Check the file.") from error


def _read_npy(path: Path, column: str) -> dict[str, np.ndarray]:
    try:
        return {column: np.load(path, mmap_mode="r", allow_pickle=False)}
    except ValueError as error:
        raise CacheError(
            f"A .npy file must contain one numeric array, but {path} does not: {error}. Save only the vectors."
        ) from error


def _read_torch(path: Path, column: str) -> dict[str, np.ndarray]:
    held = torch.load(path, map_location="cpu", weights_only=True)
    tensors = {column: held} if isinstance(held, torch.Tensor) else held
    if not isinstance(tensors, dict) or not all(isinstance(x, torch.Tensor) for x in tensors.values()):
        raise CacheError(
            f"A .pt file must contain a tensor or a dict of tensors, but {path.name} contains another object of type "
            f"{type(held).__name__}. Save only the vectors."
        )
    return {str(name): _as_numpy(x.detach()) for name, x in tensors.items()}


def _as_numpy(x: torch.Tensor) -> np.ndarray:
    # numpy has no bfloat16; float32 represents all its values exactly.
    return np.asarray((x.float() if x.dtype == torch.bfloat16 else x).numpy())


def _read_parquet(path: Path, column: str) -> dict[str, np.ndarray]:
    """Read all vector columns, skipping scalar ones; `column` is not needed."""
    table = pq.read_table(path, partitioning=None)
    return {field.name: _matrix(field, table[field.name].combine_chunks()) for field in table.schema if _holds(field)}


def _holds(field: pa.Field) -> bool:
    kind = field.type
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    named_dim = pa.types.is_fixed_size_binary(kind) and b"dim" in (field.metadata or {})
    return named_dim or any(is_list(kind) for is_list in lists)


def _matrix(field: pa.Field, values: pa.Array) -> np.ndarray:
    if values.null_count:
        nulls = things(values.null_count, "cell", "cells")
        raise CacheError(f"Every row needs a vector, but column {field.name!r} has none in {nulls}. Drop such rows.")
    if pa.types.is_fixed_size_binary(field.type):
        kind = np.dtype(field.metadata.get(b"dtype", b"float16").decode()).newbyteorder("<")
        return np.frombuffer(b"".join(values.to_pylist()), kind).reshape(len(values), int(field.metadata[b"dim"]))
    lengths = pc.unique(pc.list_value_length(values)).to_pylist()
    flat = pc.list_flatten(values)
    if len(lengths) != 1 or flat.null_count:
        raise CacheError(
            f"The vectors of a column must have the same length and no nulls, but {field.name!r} has the lengths "
            f"{sorted(lengths)[:5]} and {things(flat.null_count, 'null', 'nulls')}. Repair the file."
        )
    return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(-1, lengths[0])
