"""Joining rows of a manifest to vectors by a column that both files have."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from frostbench.embedcache.exchange.external_files import read_vector_keys
from frostbench.embedcache.storage.files import CacheError


def join_rows(vectors: Path, manifest: Path, cells: Mapping[str, Sequence[str | None]]) -> np.ndarray | None:
    """For each of N rows of the manifest the row of its vectors, int64 [N]; None where no column is in both files.

    Args:
        vectors: the file of vectors; only Parquet can hold a column to join by.
        manifest: named in errors.
        cells: the columns of the manifest.

    Raises:
        CacheError: a value of the shared column is empty or repeated, or the two files have other values.
    """
    for name in ("id", "path"):
        theirs = read_vector_keys(vectors, name) if name in cells else None
        if theirs is None:
            continue
        _check_keys(name, vectors, theirs)
        _check_keys(name, manifest, cells[name])
        mine = set(cells[name])
        row_of = {key: row for row, key in enumerate(theirs)}
        without, unused = [key for key in cells[name] if key not in row_of], [key for key in theirs if key not in mine]
        if without or unused:
            raise CacheError(
                f"vectors and manifest must have the same {name!r} values, however: {len(without)} rows of "
                f"{manifest.name} have no vector ({_examples(without)}) and {len(unused)} vectors of {vectors.name} "
                f"have no row ({_examples(unused)}). Add or drop rows until they agree."
            )
        return np.array([row_of[key] for key in cells[name]], dtype=np.int64)
    return None


def _examples(keys: Sequence[str | None]) -> str:
    return ", ".join(map(repr, keys[:3])) + (" …" if len(keys) > 3 else "") if keys else "none"


def _check_keys(name: str, file: Path, keys: Sequence[str | None]) -> None:
    odd = sorted({repr(key) for key, count in Counter(keys).items() if count > 1 or not key})
    if odd:
        raise CacheError(
            f"vectors are joined to rows by {name!r}, which must be filled and unique, however: {len(odd)} values of "
            f"{file.name} are not, for example {', '.join(odd[:3])}. Repair or drop this column."
        )
