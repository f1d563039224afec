"""Matching rows of a manifest with vectors by a common column."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from frostbench.embedcache.counting import things
from frostbench.embedcache.exchange.external_files import read_vector_keys
from frostbench.embedcache.storage.files import CacheError


def join_rows(vectors: Path, manifest: Path, cells: Mapping[str, Sequence[str | None]]) -> np.ndarray | None:
    """Return the vector row of each of N manifest rows, int64 [N]; None if the files have no common column.

    Args:
        vectors: file of vectors; only Parquet can contain a column to match by.
        manifest: file of the manifest, for messages.
        cells: columns of the manifest.

    Raises:
        CacheError: a value of the common column is empty or repeated, or the two files have different values.
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
            rows = things(len(without), f"row of {manifest.name} has", f"rows of {manifest.name} have")
            spare = things(len(unused), f"vector of {vectors.name} has", f"vectors of {vectors.name} have")
            raise CacheError(
                f"Vectors and manifest must have the same {name!r} values, but {rows} no vector ({_examples(without)}) "
                f"and {spare} no row ({_examples(unused)}). Add or drop rows until they agree."
            )
        return np.array([row_of[key] for key in cells[name]], dtype=np.int64)
    return None


def _examples(keys: Sequence[str | None]) -> str:
    return ", ".join(map(repr, keys[:3])) + (" …" if len(keys) > 3 else "") if keys else "none"


def _check_keys(name: str, file: Path, keys: Sequence[str | None]) -> None:
    odd = sorted({repr(key) for key, count in Counter(keys).items() if count > 1 or not key})
    if odd:
        raise CacheError(
            f"Vectors are matched with rows by {name!r}, which must be filled and unique, but "
            f"{things(len(odd), f'value of {file.name} is', f'values of {file.name} are')} not, for example "
            f"{', '.join(odd[:3])}. Repair or drop this column."
        )
