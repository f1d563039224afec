"""Writing vectors in memory, from files or arrays, to a complete cache."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from frostbench.embedcache.given.classes import class_notes
from frostbench.embedcache.given.vectors import check_finite
from frostbench.embedcache.items import Item, group_notes, natural_key
from frostbench.embedcache.names import check_names
from frostbench.embedcache.outputs.places import check_folder
from frostbench.embedcache.outputs.writing import new_folder
from frostbench.embedcache.recipe import Recipe, Storage
from frostbench.embedcache.storage import store
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.storage.listing import check_unique
from frostbench.embedcache.storage.vectors import LITTLE

SHARD_ROWS = 65_536
LARGEST = {name: float(np.finfo(name).max) for name in ("float16", "float32")}
NOTABLE_ROUNDING = 2**-11
"""Relative rounding error of float16 in its normal range; a larger error of a row means subnormal numbers."""
NOTABLE_NOISE = 1e-2
"""Rounding error relative to a channel's standard deviation from which float16 is too coarse."""


def check_new(cache_dir: Path) -> None:
    """Check that a folder is new or empty.

    Raises:
        CacheError: it is not empty, or is a file.
        OutputError: it cannot be created.
    """
    if cache_dir.exists() and (not cache_dir.is_dir() or any(cache_dir.iterdir())):
        found = "holds files" if cache_dir.is_dir() else "is not a folder"
        raise CacheError(f"An import needs a new or empty folder, but {cache_dir} {found}. Choose another.")
    check_folder(cache_dir.resolve().parent)


def write_cache(
    cache_dir: Path,
    items: Sequence[Item],
    arrays: Mapping[str, np.ndarray],
    model: str,
    source: str,
    class_names: Sequence[str] | None = None,
) -> tuple[dict[str, Storage], dict[str, float], tuple[str, ...]]:
    """Store vectors as a complete cache with recipes of provider "external"; the folder gets its name at the end.

    Args:
        cache_dir: a new or empty folder.
        items: [N] the rows.
        arrays: vectors [N, D] by column, as returned by `frostbench.embedcache.given.vectors.read_vectors`.
        model: name of the model that made the vectors.
        source: origin of the vectors.
        class_names: all classes in order; None uses those of the items, in natural order.

    Returns:
        The stored dtype of each column (see `storage_of`), the maximum over rows of |x - stored| / |x| of each column,
        and sentences for the user.

    Raises:
        OutputError: the folder cannot be created.
        CacheError: ids are repeated, a column has a reserved name, or a vector does not fit float32.
        ValueError: a class name is blank.
    """
    check_new(cache_dir)
    names = sorted({item.label for item in items}, key=natural_key) if class_names is None else list(class_names)
    _check(items, arrays)
    alike = check_names(names, source)
    kinds = {name: storage_of(x) for name, x in arrays.items()}
    recipes = {name: Recipe(provider="external", model=model, storage=kind) for name, kind in kinds.items()}
    with new_folder(cache_dir.resolve(), "an import") as made:
        _write_head(made, items, recipes, {name: x.shape[1] for name, x in arrays.items()}, source, names)
        rounding = _write_rows(made, items, recipes, arrays)
        store.write_manifest(made)
    return kinds, rounding, _notes(items, names, alike, rounding)


def storage_of(x: np.ndarray) -> Storage:
    """Choose the dtype for storing finite vectors x [N, D]: float16, or float32 if float16 would lose too much.

    Too much means a number out of range, an error above `NOTABLE_ROUNDING` of a row's norm (very small numbers), or
    errors above `NOTABLE_NOISE` of a channel's standard deviation (small variation around a large mean).

    >>> x = np.array([[1.0, 2.0], [3.0, 5.0]])
    >>> storage_of(x), storage_of(1e-6 * x), storage_of(1e5 * x), storage_of(1000 + 0.1 * x)
    ('float16', 'float32', 'float32', 'float32')
    """
    if x.dtype == np.float16 or len(x) == 0:
        return "float16"
    noise, mean, square, rows = 0.0, 0.0, 0.0, len(x)
    centre = x[:1].astype(np.float64)
    for start in range(0, rows, SHARD_ROWS):
        part = x[start : start + SHARD_ROWS]
        if np.abs(part).max() > LARGEST["float16"]:
            return "float32"
        exact, stored = part.astype(np.float64), part.astype(np.float16)
        if _rounding(part, stored) > NOTABLE_ROUNDING:
            return "float32"
        noise = noise + np.square(exact - stored).sum(0)
        mean = mean + (exact - centre).sum(0)
        square = square + np.square(exact - centre).sum(0)
    spread = square - np.square(mean) / rows
    # Errors in a constant channel do not matter.
    coarse = (spread > 0) & (noise > NOTABLE_NOISE**2 * spread)
    return "float32" if coarse.any() else "float16"


def _check(items: Sequence[Item], arrays: Mapping[str, np.ndarray]) -> None:
    """Check names and values before anything is written."""
    check_unique([item.id for item in items], "items")
    taken = sorted(set(arrays) & set(store.RESERVED))
    if taken:
        raise CacheError(f"A vector column needs a name other than {store.RESERVED}, got {taken}. Rename it.")
    for name, x in arrays.items():
        try:
            check_finite(x, f"vectors of column {name!r}", lambda row: repr(items[row].id), LARGEST["float32"])
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
    """Write the shards; return the maximum relative rounding error of a row, by column."""
    dims = {name: x.shape[1] for name, x in arrays.items()}
    rounding = dict.fromkeys(arrays, 0.0)
    for i, start in enumerate(range(0, len(items), SHARD_ROWS)):
        rows = slice(start, start + SHARD_ROWS)
        ids = [item.id for item in items[rows]]
        stored = {name: x[rows].astype(recipes[name].storage) for name, x in arrays.items()}
        for name, x in arrays.items():
            rounding[name] = max(rounding[name], _rounding(x[rows], stored[name]))
        store.write_shard(cache_dir, i, ids, _row_hashes(stored, len(ids)), stored, [], recipes, dims)
    return rounding


def _rounding(x: np.ndarray, stored: np.ndarray) -> float:
    """Return the maximum over rows of |x - stored| / |x|."""
    wide = x.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1)
    errors = np.linalg.norm(wide - stored.astype(np.float64), axis=1)
    return float(np.divide(errors, lengths, out=np.zeros_like(errors), where=lengths > 0).max(initial=0.0))


def _row_hashes(stored: dict[str, np.ndarray], n: int) -> list[bytes]:
    rows = [np.ascontiguousarray(stored[name], dtype=LITTLE[stored[name].dtype.name]) for name in sorted(stored)]
    return [hashlib.sha256(b"".join(x[r].tobytes() for x in rows)).digest() for r in range(n)]


def _notes(
    items: Sequence[Item], class_names: Sequence[str], alike: Sequence[str], rounding: Mapping[str, float]
) -> tuple[str, ...]:
    notes = group_notes([item.group for item in items])
    notes += class_notes([item.label for item in items], class_names)
    notes += alike
    for name, error in rounding.items():
        if error > NOTABLE_ROUNDING:
            notes.append(
                f"Storing column {name!r} as float32 changes a vector by up to {error:.1e} of its norm, because "
                "its values are very small. Scale the vectors before the import."
            )
    return tuple(notes)
