"""Vectors in memory to a finished cache, whether they came from files or from arrays."""

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedcache.given.classes import told_of_classes
from embedcache.given.vectors import check_finite
from embedcache.items import Item, alike_names, natural_key, told_of_groups
from embedcache.recipe import Recipe
from embedcache.storage import store
from embedcache.storage.files import CacheError
from embedcache.storage.listing import check_unique

SHARD_ROWS = 65_536
LARGEST = float(np.finfo(np.float16).max)
NOTABLE_ROUNDING = 1e-3
"""float16 rounds ordinary vectors by about 3e-4; more means that many values are below its normal range."""


def check_new(cache_dir: Path) -> None:
    """Refuse a folder that holds something.

    Raises:
        CacheError: it does, or is a file.
    """
    if cache_dir.exists() and (not cache_dir.is_dir() or any(cache_dir.iterdir())):
        found = "holds files" if cache_dir.is_dir() else "is no folder"
        raise CacheError(f"an import needs a new or empty folder, however: {cache_dir} {found}. Choose another.")


def write_cache(
    cache_dir: Path,
    items: Sequence[Item],
    arrays: Mapping[str, np.ndarray],
    model: str,
    source: str,
    class_names: Sequence[str] | None = None,
) -> tuple[dict[str, float], tuple[str, ...]]:
    """Store vectors as a finished cache with recipes of provider "external"; it gets its name when it is complete.

    Args:
        cache_dir: a new or empty folder.
        items: [N] the rows.
        arrays: vectors [N, D] by column, as `embedcache.given.vectors.read_vectors` gives them.
        model: what made the vectors, in the user's words.
        source: what they came from.
        class_names: all classes in order; None takes those of the items, in natural order.

    Returns:
        By column, the largest over rows of |x - float16(x)| / |x|; and sentences to show.

    Raises:
        CacheError: ids are repeated, a column has a reserved name, or a vector does not fit float16.
    """
    check_new(cache_dir)
    names = sorted({item.label for item in items}, key=natural_key) if class_names is None else list(class_names)
    _check(items, arrays)
    recipes = {name: Recipe(provider="external", model=model) for name in arrays}
    target = cache_dir.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        made = Path(folder) / "cache"
        _write_head(made, items, recipes, {name: x.shape[1] for name, x in arrays.items()}, source, names)
        rounding = _write_rows(made, items, recipes, arrays)
        store.write_manifest(made)
        if target.exists():
            target.rmdir()
        made.rename(target)
    return rounding, _notes(items, names, rounding)


def _check(items: Sequence[Item], arrays: Mapping[str, np.ndarray]) -> None:
    """All that can be wrong with names and values, before anything is written."""
    check_unique([item.id for item in items], "items")
    taken = sorted(set(arrays) & set(store.RESERVED))
    if taken:
        raise CacheError(
            f"a column of vectors needs a name other than {store.RESERVED}, however: {taken} came. Rename it."
        )
    for name, x in arrays.items():
        try:
            check_finite(x, f"vectors of column {name!r}", lambda row: repr(items[row].id), LARGEST)
        except ValueError as error:
            raise CacheError(str(error)) from error


def _write_head(
    cache_dir: Path,
    items: Sequence[Item],
    recipes: Mapping[str, Recipe],
    dims: Mapping[str, int],
    source: str,
    class_names: list[str],
) -> None:
    cache: dict[str, Any] = {
        "format_version": store.FORMAT_VERSION,
        "source": {"kind": "external", "file": source},
        "class_names": class_names,
        "columns": store.describe_columns(recipes, dims),
        "provenance": {},
        "shard_rows": SHARD_ROWS,
        "canary": None,
    }
    store.write_json(cache_dir / "cache.json", cache)
    store.write_items(cache_dir, items)


def _write_rows(
    cache_dir: Path, items: Sequence[Item], recipes: Mapping[str, Recipe], arrays: Mapping[str, np.ndarray]
) -> dict[str, float]:
    """Write the shards; returns the largest relative rounding error of a row, by column."""
    dims = {name: x.shape[1] for name, x in arrays.items()}
    rounding = dict.fromkeys(arrays, 0.0)
    for i, start in enumerate(range(0, len(items), SHARD_ROWS)):
        rows = slice(start, start + SHARD_ROWS)
        ids = [item.id for item in items[rows]]
        stored = {name: x[rows].astype(np.float16) for name, x in arrays.items()}
        for name, x in arrays.items():
            rounding[name] = max(rounding[name], _rounding(x[rows], stored[name]))
        store.write_shard(cache_dir, i, ids, _row_hashes(stored, len(ids)), stored, [], recipes, dims)
    return rounding


def _rounding(x: np.ndarray, stored: np.ndarray) -> float:
    """The largest over rows of |x - stored| / |x|."""
    wide = x.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1)
    errors = np.linalg.norm(wide - stored.astype(np.float64), axis=1)
    return float(np.divide(errors, lengths, out=np.zeros_like(errors), where=lengths > 0).max(initial=0.0))


def _row_hashes(stored: dict[str, np.ndarray], n: int) -> list[bytes]:
    rows = [np.ascontiguousarray(stored[name], dtype="<f2") for name in sorted(stored)]
    return [hashlib.sha256(b"".join(x[r].tobytes() for x in rows)).digest() for r in range(n)]


def _notes(items: Sequence[Item], class_names: Sequence[str], rounding: Mapping[str, float]) -> tuple[str, ...]:
    notes = told_of_groups([item.group for item in items])
    notes += told_of_classes([item.label for item in items], class_names)
    notes += alike_names(class_names)
    for name, error in rounding.items():
        if error > NOTABLE_ROUNDING:
            notes.append(
                f"Storing column {name!r} as float16 changes a vector by up to {error:.1e} of its length: "
                "its values are very small. Scale the vectors before the import."
            )
    return tuple(notes)
