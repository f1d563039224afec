"""Manifests: a CSV or Parquet table with the columns path and label, and optionally group, split and time."""

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from embedcache.items import Item, Listing, escape_name, make_listing, misspelt_headers
from embedcache.sources.times import as_time

COLUMNS = ("path", "label", "group", "split", "time")
REQUIRED = ("path", "label")
EXTRAS = ("group", "split", "time")
LOOKED_AT = 1000
SAVE_AS = "Save it with the encoding UTF-8."


def list_manifest(
    manifest: Path, *, root: Path | None = None, group_regex: str | None = None, time_regex: str | None = None
) -> Listing:
    """List the images that a table names.

    Relative paths are relative to `root`, or else to the manifest's folder. Ids are the paths as written, or
    relative to the root where the manifest holds absolute paths below it. A file that does not exist is listed, and
    quarantined when it is read. Empty cells of group, split and time mean "unknown".

    Args:
        manifest: a .csv (UTF-8, with a header) or .parquet file.
        root: folder that relative paths start from.
        group_regex: takes groups from the ids, where the table has no group column.
        time_regex: takes times from the ids, where the table has no time column.

    Raises:
        ValueError: the file, its columns or its cells are not as above, or none of the first 1000 files exists.
    """
    base = (manifest.parent if root is None else root).absolute()
    columns, ignored = _read(manifest)
    times = read_times(columns["time"], manifest)
    rows = zip(*(columns[name] for name in COLUMNS[:4]), times, strict=True)
    items = [
        Item(_id(path, base), base / path, label, group=group or None, split=split or None, time=time)
        for path, label, group, split, time in rows
    ]
    _check_some_exist(items, base)
    warnings = (
        [f"Columns of the manifest that mean nothing here were ignored: {', '.join(ignored)}."] if ignored else []
    )
    description = {
        "kind": "manifest",
        "manifest": escape_name(os.fspath(manifest.absolute())),
        "root": escape_name(os.fspath(base)),
    }
    return make_listing(items, {item.label for item in items}, warnings, description, group_regex, time_regex)


def _read(manifest: Path) -> tuple[dict[str, list[str]], list[str]]:
    """The columns as text ("" where a cell or an optional column is missing), and the names of the others."""
    table = _read_table(manifest)
    names = column_names(table, manifest)
    odd = misspelt_headers(names, COLUMNS)
    if odd:
        raise ValueError(f"the columns of a manifest are told by their exact names, however: {manifest} has {odd}.")
    missing = [name for name in REQUIRED if name not in names]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if missing or repeated:
        raise ValueError(
            f"a manifest must have the columns path and label once each, however: {manifest} has {names}. "
            f"{_advice(names)}"
        )
    columns = {
        name: as_text(table[name], name, manifest) if name in names else [""] * table.num_rows for name in COLUMNS
    }
    for name in REQUIRED:
        empty = [row for row, value in enumerate(columns[name]) if not value]
        if empty:
            raise ValueError(
                f"every row of a manifest must have a {name}, however: {len(empty)} rows of {manifest} have none, the "
                f"first is row {empty[0]} (counted from 0 after the header). Fill or remove them."
            )
    return columns, [name for name in names if name not in COLUMNS]


def column_names(table: pa.Table, manifest: Path) -> list[str]:
    """The names of the columns, which Arrow decodes only when they are asked for.

    Raises:
        ValueError: they are not UTF-8.
    """
    try:
        names: list[str] = table.column_names
    except UnicodeDecodeError as error:
        raise ValueError(f"a manifest must be UTF-8 text, however: {manifest}: {error}. {SAVE_AS}") from error
    return names


def _advice(names: list[str]) -> str:
    """What to do about columns that are not there: one name with another delimiter in it was not cut at it."""
    found = next((sign for sign in ";\t|" if len(names) == 1 and sign in names[0]), None)
    if found is not None:
        return f"Its cells seem to be divided by {found!r}: write it with commas."
    return "Name them in its first line; rename or remove other columns of these names."


def _read_table(manifest: Path) -> pa.Table:
    if not manifest.is_file():
        raise ValueError(f"a manifest must be a file, however: {manifest} is none. Is the path right?")
    suffix = manifest.suffix.lower()
    try:
        if suffix == ".csv":
            # Read as text: 'NA' and '007' are good class names.
            options = pyarrow.csv.ConvertOptions(
                column_types={name: pa.string() for name in COLUMNS}, strings_can_be_null=False
            )
            return pyarrow.csv.read_csv(manifest, convert_options=options)
        if suffix == ".parquet":
            return pq.read_table(manifest)
    except (OSError, pa.ArrowException) as error:
        told = str(error).rstrip(".")
        advice = SAVE_AS if "UTF8" in told else "Give it a header with path and label, and as many cells in every row."
        advice = advice if suffix == ".csv" else "Write it anew."
        raise ValueError(
            f"a manifest must be a readable {suffix} file, however: {manifest}: {told}. {advice}"
        ) from error
    raise ValueError(f"a manifest must be a .csv or .parquet file, however: {manifest} ends in {suffix!r}. Convert it.")


def as_text(column: pa.ChunkedArray, name: str, manifest: Path) -> list[str]:
    """The cells of a column as text, "" where they are empty.

    Raises:
        ValueError: it holds neither text nor integers (nor times, if it is the time column).
    """
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    fits = (pa.types.is_string, pa.types.is_large_string, pa.types.is_integer, pa.types.is_null)
    fits += (pa.types.is_date, pa.types.is_timestamp) if name == "time" else ()
    if not any(is_kind(kind) for is_kind in fits):
        raise ValueError(
            f"column {name!r} of a manifest must hold text or integers, however: {manifest} holds {kind}. Convert it: "
            "a class named 1.0 is no class 1."
        )
    return [value or "" for value in column.cast(pa.string()).to_pylist()]


def read_times(cells: list[str], manifest: Path) -> list[str | None]:
    """The times in the cells of a manifest; None where a cell is empty.

    Raises:
        ValueError: a cell is no date or date-time.
    """
    times = [as_time(cell) if cell else None for cell in cells]
    wrong = [row for row, (cell, time) in enumerate(zip(cells, times, strict=True)) if cell and time is None]
    if wrong:
        raise ValueError(
            f"times of a manifest must be written as ISO 8601, 2024-01-31 or 2024-01-31T10:20:30, however: row "
            f"{wrong[0]} of {manifest} (counted from 0 after the header) has {cells[wrong[0]]!r}, and {len(wrong)} "
            "rows in all are such. Rewrite them, or rename the column if it is something else."
        )
    return times


def read_extras(table: pa.Table, there: Sequence[str], source: Path) -> list[tuple[str | None, str | None, str | None]]:
    """Group, split and time of each row of a table with images; None where they are unknown.

    Args:
        table: the rows.
        there: those of the three columns that it holds, and that mean this.
        source: where the table is, for messages.

    Raises:
        ValueError: a column holds neither text nor integers, or a cell of `time` is no date or date-time.
    """
    cells = {name: as_text(table[name], name, source) if name in there else [""] * table.num_rows for name in EXTRAS}
    rows = zip(cells["group"], cells["split"], read_times(cells["time"], source), strict=True)
    return [(group or None, split or None, time) for group, split, time in rows]


def _id(path: str, base: Path) -> str:
    written = PurePosixPath(path)
    inside = written.is_absolute() and written.is_relative_to(base.as_posix())
    return escape_name(str(written.relative_to(base.as_posix()) if inside else written))


def _check_some_exist(items: list[Item], base: Path) -> None:
    looked_at = items[:LOOKED_AT]
    if looked_at and not any(item.path is not None and item.path.exists() for item in looked_at):
        raise ValueError(
            f"the files of a manifest must exist, however: none of the first {len(looked_at)} does, for example "
            f"{looked_at[0].path}. Relative paths were taken from {base}: give the right root."
        )
