"""Importing existing vectors (.npy, .pt or Parquet, with a manifest) into a cache."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from frostbench.embedcache.cells import column_texts
from frostbench.embedcache.counting import things
from frostbench.embedcache.exchange.external_files import read_vector_file
from frostbench.embedcache.exchange.external_join import join_rows
from frostbench.embedcache.exchange.writing import check_new, write_cache
from frostbench.embedcache.items import Item, escape_name
from frostbench.embedcache.recipe import Recipe, Storage, unknown_fields
from frostbench.embedcache.sources.manifests import EXTRAS, check_headers, ignored_columns, read_extras
from frostbench.embedcache.sources.text_tables import read_text_table
from frostbench.embedcache.sources.times import check_alike
from frostbench.embedcache.storage.files import CacheError

MANIFEST_COLUMNS = ("id", "path", "label", "group", "split", "time")
BY_POSITION = (
    "Vectors and rows were matched by position, because the files have no common id column. To match them by id, give "
    "both an id column (with vectors as Parquet)."
)


@dataclass(frozen=True)
class ImportReport:
    """Result of an import.

    Attributes:
        rows: number of rows.
        dims: dimension of each column.
        storage: stored dtype of each column.
        rounding: maximum over rows of |x - stored| / |x| (Euclidean norms), by column.
        unknown: recipe fields that are unknown for imported vectors.
        warnings: sentences for the user.
    """

    rows: int
    dims: dict[str, int]
    storage: dict[str, Storage]
    rounding: dict[str, float]
    unknown: tuple[str, ...]
    warnings: tuple[str, ...]


def import_vectors(
    vectors: Path, manifest: Path, cache_dir: Path, model: str, column: str = "features"
) -> ImportReport:
    """Store existing vectors as a complete cache with recipes of provider "external".

    If the manifest and a Parquet file of vectors both have a column id (or else path), rows are matched by it;
    otherwise row r of the vectors belongs to row r of the manifest. A row's content hash is the SHA-256 of its stored
    vectors. The folder gets its name when the cache is complete, so a failed import leaves nothing behind.

    Args:
        vectors: .npy [N, D]; .pt with a tensor [N, D] or a dict of tensors; .parquet with list, fixed-size list or
            (with `dim` and `dtype` in the field's metadata) fixed-size binary columns.
        manifest: .csv or .parquet with the column label and optionally id, path, group, split and time.
        cache_dir: a new or empty folder.
        model: name of the model that made the vectors, for the recipe.
        column: name of the column, if the file does not name it.

    Raises:
        CacheError: vectors, shapes or counts are not as above, a label or id is empty, the ids of the two files differ,
            or a vector does not fit float32.
        OutputError: the folder cannot be created.
        ValueError: the manifest cannot be read, one of its columns holds neither text nor integers, or a class name is
            blank.
    """
    check_new(cache_dir)
    arrays = read_vector_file(vectors, column)
    items, cells, manifest_notes = _read_manifest(manifest, arrays if manifest == vectors else ())
    order = join_rows(vectors, manifest, cells)
    if order is not None:
        arrays = {name: x[order] for name, x in arrays.items()}
    _check_counts(items, arrays, vectors, manifest)
    storage, rounding, notes = write_cache(cache_dir, items, arrays, model, escape_name(vectors.name))
    unknown = tuple(unknown_fields(Recipe(provider="external", model=model)))
    warnings = (*notes, *manifest_notes, *([BY_POSITION] if order is None else []))
    dims = {name: x.shape[1] for name, x in arrays.items()}
    return ImportReport(len(items), dims, storage, rounding, unknown, warnings)


def _check_counts(items: list[Item], arrays: dict[str, np.ndarray], vectors: Path, manifest: Path) -> None:
    for name, x in arrays.items():
        if len(x) != len(items):
            raise CacheError(
                f"Vectors and manifest must have the same number of rows, but column {name!r} of {vectors.name} has "
                f"{len(x)} and {manifest.name} has {len(items)}. Drop failed images from both files."
            )


def _read_manifest(
    manifest: Path, vectors: Collection[str]
) -> tuple[list[Item], dict[str, list[str | None]], list[str]]:
    """Return the items, the cells of the columns that identify rows, and notes for the user.

    Args:
        manifest: the file.
        vectors: its vector columns, if it also contains the vectors.
    """
    table = read_text_table(manifest, MANIFEST_COLUMNS, "a manifest", "label")
    check_headers(table.names, MANIFEST_COLUMNS, manifest)
    n, known = table.rows.num_rows, [name for name in MANIFEST_COLUMNS if name in table.names]
    cells = {name: column_texts(table.rows[name], name, str(manifest)) for name in known if name not in EXTRAS}
    if n == 0 or None in cells.get("label", [None]) or None in cells.get("id", []):
        raise CacheError(
            f"A manifest of vectors needs a label (and an id, if it has ids) as text in every row, but "
            f"{manifest.name} has {things(n, 'row', 'rows')} and the columns {table.names}{_first_empty(cells)}. "
            "Add the column or value."
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
    """Describe the first row without a label or id; "" if there is none."""
    empty = [(name, cells[name].index(None)) for name in ("label", "id") if None in cells.get(name, [])]
    return "".join(f"; row {row} (counted from 0 after the header) has no {name}" for name, row in empty)
