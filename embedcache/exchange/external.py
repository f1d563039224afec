"""Vectors that someone already has, as .npy, .pt or Parquet beside a manifest, brought into a cache."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embedcache.cells import column_texts
from embedcache.exchange.external_files import read_vector_file
from embedcache.exchange.external_join import join_rows
from embedcache.items import Item, escape_name, group_notes, natural_key
from embedcache.names import alike_names
from embedcache.recipe import Recipe, unknown_fields
from embedcache.sources.manifests import EXTRAS, check_headers, ignored_columns, read_extras
from embedcache.sources.text_tables import read_text_table
from embedcache.sources.times import check_alike
from embedcache.storage import store
from embedcache.storage.files import CacheError
from embedcache.storage.listing import check_unique
from outputs.places import check_folder
from outputs.writing import new_folder

SHARD_ROWS = 65_536
MANIFEST_COLUMNS = ("id", "path", "label", "group", "split", "time")
LARGEST = float(np.finfo(np.float16).max)
BY_POSITION = (
    "Vectors and rows were joined by position: nothing in the files says which vector belongs to which row. Give both "
    "an id column (vectors as Parquet) to have them joined by it."
)
NOTABLE_ROUNDING = 1e-3
"""float16 rounds ordinary vectors by about 3e-4; more means that many values are below its normal range."""


@dataclass(frozen=True)
class ImportReport:
    """What an import stored.

    Attributes:
        rows: number of rows.
        dims: length of a vector, by column.
        rounding: by column, the largest over rows of |x - float16(x)| / |x| (Euclidean norms).
        unknown: recipe fields that nobody can know of these vectors.
        warnings: sentences to show.
    """

    rows: int
    dims: dict[str, int]
    rounding: dict[str, float]
    unknown: tuple[str, ...]
    warnings: tuple[str, ...]


def import_vectors(
    vectors: Path, manifest: Path, cache_dir: Path, model: str, column: str = "features"
) -> ImportReport:
    """Store existing vectors as a finished cache with recipes of provider "external".

    Where the manifest and a Parquet file of vectors both have a column id (or else path), rows are joined by it;
    otherwise row r of the vectors belongs to row r of the manifest. A row's content hash is the SHA-256 of its stored
    vectors. The cache gets its name when it is complete, so that a failed import leaves nothing behind.

    Args:
        vectors: .npy [N, D]; .pt with a tensor [N, D] or a dict of them; .parquet with list, fixed-size list or
            (with `dim` and `dtype` in the field's metadata) fixed-size binary columns.
        manifest: .csv or .parquet with the column label and optionally id, path, group, split and time.
        cache_dir: a new or empty folder.
        model: what made the vectors, in your words; it goes into the recipe.
        column: name of the column, where the file does not name any.

    Raises:
        CacheError: vectors, shapes or counts are not as above, a label or id is empty, the ids of the two files differ,
            or a vector does not fit float16.
        OutputError: the folder cannot be made.
        ValueError: the manifest cannot be read, a column of it holds neither text nor whole numbers, or a class has a
            blank name.
    """
    if cache_dir.exists() and (not cache_dir.is_dir() or any(cache_dir.iterdir())):
        found = "holds files" if cache_dir.is_dir() else "is no folder"
        raise CacheError(f"an import needs a new or empty folder, however: {cache_dir} {found}. Choose another.")
    check_folder(cache_dir.resolve().parent)
    arrays = read_vector_file(vectors, column)
    items, cells, told = _read_manifest(manifest, arrays if manifest == vectors else ())
    order = join_rows(vectors, manifest, cells)
    if order is not None:
        arrays = {name: x[order] for name, x in arrays.items()}
    _check(items, arrays, vectors, manifest)
    recipes = {name: Recipe(provider="external", model=model) for name in arrays}
    rounding = _write(cache_dir, items, recipes, arrays, vectors)
    unknown = tuple(unknown_fields(Recipe(provider="external", model=model)))
    notes = (*_warnings(items, rounding), *told, *([BY_POSITION] if order is None else []))
    return ImportReport(len(items), {name: x.shape[1] for name, x in arrays.items()}, rounding, unknown, notes)


def _check(items: list[Item], arrays: dict[str, np.ndarray], vectors: Path, manifest: Path) -> None:
    """All that can be wrong with names, counts and values, before anything is written."""
    check_unique([item.id for item in items], "items")
    taken = sorted(set(arrays) & set(store.RESERVED))
    if taken:
        raise CacheError(
            f"a column of vectors needs a name other than {store.RESERVED}, however: {taken} came. Rename it."
        )
    for name, x in arrays.items():
        if len(x) != len(items):
            raise CacheError(
                f"vectors and manifest must have one row per item, however: column {name!r} of {vectors.name} has "
                f"{len(x)} rows and {manifest.name} has {len(items)}. Were failed images dropped from one of them?"
            )
        _check_range(name, x, items)


def _write(
    cache_dir: Path,
    items: list[Item],
    recipes: dict[str, Recipe],
    arrays: dict[str, np.ndarray],
    vectors: Path,
) -> dict[str, float]:
    """Write a whole cache beside its place, then move it there; returns the rounding errors of `_write_rows`."""
    with new_folder(cache_dir.resolve(), "an import") as made:
        _write_head(made, items, recipes, {name: x.shape[1] for name, x in arrays.items()}, vectors)
        rounding = _write_rows(made, items, recipes, arrays)
        store.write_manifest(made)
    return rounding


def _check_range(name: str, x: np.ndarray, items: list[Item]) -> None:
    for start in range(0, len(x), SHARD_ROWS):
        part = x[start : start + SHARD_ROWS]
        fits = np.abs(part) <= LARGEST
        if not fits.all():
            row, place = np.argwhere(~fits)[0]
            raise CacheError(
                f"vectors must be finite and within ±65504 to be stored as float16, however: column {name!r} of "
                f"{items[start + row].id!r} holds {part[row, place]}. Drop this row, or scale the vectors."
            )


def _write_head(
    cache_dir: Path, items: list[Item], recipes: dict[str, Recipe], dims: dict[str, int], vectors: Path
) -> None:
    cache: dict[str, Any] = {
        "format_version": store.FORMAT_VERSION,
        "source": {"kind": "external", "file": escape_name(vectors.name)},
        "class_names": sorted({item.label for item in items}, key=natural_key),
        "columns": store.describe_columns(recipes, dims),
        "provenance": {},
        "shard_rows": SHARD_ROWS,
        "canary": None,
    }
    store.write_json(cache_dir / "cache.json", cache)
    store.write_items(cache_dir, items)


def _write_rows(
    cache_dir: Path, items: list[Item], recipes: dict[str, Recipe], arrays: dict[str, np.ndarray]
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


def _warnings(items: list[Item], rounding: dict[str, float]) -> list[str]:
    notes = group_notes([item.group for item in items]) + alike_names(item.label for item in items)
    for name, error in rounding.items():
        if error > NOTABLE_ROUNDING:
            notes.append(
                f"Storing column {name!r} as float16 changes a vector by up to {error:.1e} of its length: "
                "its values are very small. Scale the vectors before the import."
            )
    return notes


def _read_manifest(
    manifest: Path, vectors: Collection[str]
) -> tuple[list[Item], dict[str, list[str | None]], list[str]]:
    """The items, the cells of the columns that rows are named by, and notes for a person.

    Args:
        manifest: the file.
        vectors: columns of it that hold vectors, where it is the file of these, too.
    """
    table = read_text_table(manifest, MANIFEST_COLUMNS, "a manifest", "label")
    check_headers(table.names, MANIFEST_COLUMNS, manifest)
    n, known = table.rows.num_rows, [name for name in MANIFEST_COLUMNS if name in table.names]
    cells = {name: column_texts(table.rows[name], name, str(manifest)) for name in known if name not in EXTRAS}
    if n == 0 or None in cells.get("label", [None]) or None in cells.get("id", []):
        raise CacheError(
            f"a manifest of vectors needs a label (and an id, if it has ids) as text in every row, however: "
            f"{manifest.name} has {n} rows and the columns {table.names}{_first_empty(cells)}. Name or fill them."
        )
    extras, notes = read_extras(table.rows, [name for name in EXTRAS if name in known], manifest)
    paths = cells.get("path", [None] * n)
    ids = cells.get("id", [f"row-{r:08d}" if p is None else escape_name(p) for r, p in enumerate(paths)])
    items = [
        Item(str(one), None if path is None else Path(path), str(label), group, split, time)
        for one, path, label, (group, split, time) in zip(ids, paths, cells["label"], extras, strict=True)
    ]
    check_alike([item.time for item in items if item.time is not None])
    ignored = ignored_columns([name for name in table.names if name not in vectors], MANIFEST_COLUMNS)
    return items, cells, ignored + notes


def _first_empty(cells: dict[str, list[str | None]]) -> str:
    """The first row without a label or an id, in words; "" where all have them."""
    empty = [(name, cells[name].index(None)) for name in ("label", "id") if None in cells.get(name, [])]
    return "".join(f"; row {row} (counted from 0 after the header) has no {name}" for name, row in empty)
