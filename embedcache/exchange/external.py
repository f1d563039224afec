"""Vectors that someone already has, as .npy, .pt or Parquet beside a manifest, brought into a cache."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from embedcache.exchange.external_files import read_vector_file
from embedcache.exchange.external_join import join_rows
from embedcache.exchange.writing import check_new, write_cache
from embedcache.items import Item, escape_name, misspelt_headers
from embedcache.recipe import Recipe, Storage, unknown_fields
from embedcache.sources.manifests import column_names, read_times
from embedcache.storage.files import CacheError

MANIFEST_COLUMNS = ("id", "path", "label", "group", "split", "time")
BY_POSITION = (
    "Vectors and rows were joined by position: nothing in the files says which vector belongs to which row. Give both "
    "an id column (vectors as Parquet) to have them joined by it."
)


@dataclass(frozen=True)
class ImportReport:
    """What an import stored.

    Attributes:
        rows: number of rows.
        dims: length of a vector, by column.
        storage: the type in which it is stored, by column.
        rounding: by column, the largest over rows of |x - stored| / |x| (Euclidean norms).
        unknown: recipe fields that nobody can know of these vectors.
        warnings: sentences to show.
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
        CacheError: files, shapes, counts or cells are not as above, the ids of the two files differ, or a vector does
            not fit float32.
        ValueError: the header of a CSV manifest is not UTF-8.
    """
    check_new(cache_dir)
    items, cells = _read_manifest(manifest)
    arrays = read_vector_file(vectors, column)
    order = join_rows(vectors, manifest, cells)
    if order is not None:
        arrays = {name: x[order] for name, x in arrays.items()}
    _check_counts(items, arrays, vectors, manifest)
    storage, rounding, notes = write_cache(cache_dir, items, arrays, model, escape_name(vectors.name))
    unknown = tuple(unknown_fields(Recipe(provider="external", model=model)))
    warnings = (*notes, *([BY_POSITION] if order is None else []))
    dims = {name: x.shape[1] for name, x in arrays.items()}
    return ImportReport(len(items), dims, storage, rounding, unknown, warnings)


def _check_counts(items: list[Item], arrays: dict[str, np.ndarray], vectors: Path, manifest: Path) -> None:
    for name, x in arrays.items():
        if len(x) != len(items):
            raise CacheError(
                f"vectors and manifest must have one row per item, however: column {name!r} of {vectors.name} has "
                f"{len(x)} rows and {manifest.name} has {len(items)}. Were failed images dropped from one of them?"
            )


def _read_manifest(manifest: Path) -> tuple[list[Item], dict[str, list[str | None]]]:
    """The items, and the cells of each column that means something here."""
    table = _read_rows(manifest)
    odd = misspelt_headers(column_names(table, manifest), MANIFEST_COLUMNS)
    if odd:
        raise CacheError(f"the columns of a manifest are told by their exact names, however: {manifest} has {odd}.")
    n = table.num_rows
    cells = {name: _as_text(table[name]) for name in MANIFEST_COLUMNS if name in table.column_names}
    if n == 0 or None in cells.get("label", [None]) or None in cells.get("id", []):
        raise CacheError(
            f"a manifest of vectors needs a label (and an id, if it has ids) as text in every row, however: "
            f"{manifest.name} has {n} rows and the columns {table.column_names}. Name, fill or convert them."
        )
    paths = cells.get("path", [None] * n)
    ids = cells.get("id", [f"row-{r:08d}" if p is None else escape_name(p) for r, p in enumerate(paths)])
    unknown: list[str | None] = [None] * n
    times = read_times([cell or "" for cell in cells.get("time", unknown)], manifest)
    columns = (ids, paths, cells["label"], cells.get("group", unknown), cells.get("split", unknown), times)
    items = [
        Item(str(one), None if path is None else Path(path), str(label), group, split, time)
        for one, path, label, group, split, time in zip(*columns, strict=True)
    ]
    return items, cells


def _as_text(column: pa.ChunkedArray) -> list[str | None]:
    """Text, integers and dates as text; all None where another type makes class names doubtful, such as 1.0 for 1."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    fitting = (pa.types.is_string, pa.types.is_large_string, pa.types.is_integer)
    if not any(fits(kind) for fits in (*fitting, pa.types.is_date, pa.types.is_timestamp)):
        return [None] * len(column)
    return [value or None for value in column.cast(pa.string()).to_pylist()]


def _read_rows(manifest: Path) -> pa.Table:
    kinds = dict.fromkeys(MANIFEST_COLUMNS, pa.string())
    options = pyarrow.csv.ConvertOptions(column_types=kinds, strings_can_be_null=False)
    try:
        if manifest.suffix.lower() == ".csv":
            return pyarrow.csv.read_csv(manifest, convert_options=options)
        if manifest.suffix.lower() == ".parquet":
            return pq.read_table(manifest, partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise CacheError(f"a manifest must be readable, however: {manifest}: {error}. Check the file.") from error
    raise CacheError(f"a manifest must be a .csv or .parquet file, however: {manifest.name} came. Convert it.")
