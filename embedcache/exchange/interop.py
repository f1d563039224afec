"""Exporting a cache for other programs: a Parquet file of float32 lists, or .npy matrices with a CSV of the rows."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from frostbench.embedcache.outputs.places import check_file
from frostbench.embedcache.outputs.writing import new_file, new_folder
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.table import FeatureTable, read_table

LIST_ROWS = 8_192


def export_cache(
    cache_dir: Path, out: Path, to: Literal["list", "npy"] = "list", overwrite: bool = False
) -> list[Path]:
    """Export a complete cache to a common format; return the files written.

    Args:
        cache_dir: the cache.
        out: for "list" a Parquet file with id, label, group and a list<float32> column per vector column, readable by
            pandas, polars and duckdb; for "npy" a folder with COLUMN.npy ([N, D] as stored) and rows.csv.
        to: the format.
        overwrite: whether existing files may be replaced.

    Raises:
        CacheError: the cache is incomplete, a file exists already, or a column's name is not a valid file name.
        OutputError: a file cannot be written.
    """
    names = list(read_table(cache_dir, stored=True).stored)
    targets = _npy_files(names, out) if to == "npy" else [out]
    _check_free(targets, overwrite)
    table = read_table(cache_dir, names)
    if to == "npy":
        _write_npy(table, out, targets)
    else:
        _write_lists(table, out)
    return targets


def _check_free(targets: list[Path], overwrite: bool) -> None:
    there = [str(path) for path in targets if path.exists()]
    if there and not overwrite:
        raise CacheError(
            f"An export does not replace files, but {there} exist. Choose another name, or add --overwrite."
        )
    for path in targets:
        check_file(path, makes_folder=True)


def _rows(table: FeatureTable) -> dict[str, pa.Array]:
    """Return the text columns; the group is null for rows without a given group, which the table groups by content."""
    names = np.array(table.class_names, dtype=object)
    stated = [None if g == c else g for g, c in zip(table.groups.tolist(), table.content.tolist(), strict=True)]
    return {
        "id": pa.array(table.ids.tolist(), pa.string()),
        "label": pa.array(names[table.labels].tolist(), pa.string()),
        "group": pa.array(stated, pa.string()),
    }


def _write_lists(table: FeatureTable, out: Path) -> None:
    """Convert a few thousand rows at a time, because float32 lists take more than twice the memory of the table."""
    rows = pa.table(_rows(table))
    lists = [pa.field(name, pa.list_(pa.float32())) for name in table.columns]
    schema = pa.schema([*rows.schema, *lists])
    with new_file(out) as partial, pq.ParquetWriter(partial, schema) as writer:
        for start in range(0, max(len(table.ids), 1), LIST_ROWS):
            part = rows.slice(start, LIST_ROWS).combine_chunks()
            arrays = [_as_lists(x[start : start + LIST_ROWS]) for x in table.columns.values()]
            writer.write_table(pa.Table.from_arrays([*part.itercolumns(), *arrays], schema=schema))


def _as_lists(x: np.ndarray) -> pa.Array:
    offsets = pa.array(np.arange(len(x) + 1, dtype=np.int32) * x.shape[1])
    return pa.ListArray.from_arrays(offsets, pa.array(x.astype(np.float32).ravel()))


def _npy_files(names: Sequence[str], out: Path) -> list[Path]:
    odd = [name for name in names if Path(name).name != name]
    if odd:
        raise CacheError(
            f"Exported files are named after columns, but {odd} are not valid file names. Export with `--to list`."
        )
    return [out / "rows.csv", *(out / f"{name}.npy" for name in names)]


def _write_npy(table: FeatureTable, out: Path, targets: Sequence[Path]) -> None:
    """Write all files, and move them into place when all are complete."""
    if not out.exists():
        with new_folder(out) as partial:
            _fill(table, [partial / path.name for path in targets])
        return
    with ExitStack() as stack:
        _fill(table, [stack.enter_context(new_file(path)) for path in targets])


def _fill(table: FeatureTable, files: Sequence[Path]) -> None:
    pyarrow.csv.write_csv(pa.table(_rows(table)), files[0])
    for path, x in zip(files[1:], table.columns.values(), strict=True):
        with path.open("wb") as file:
            np.save(file, x)
