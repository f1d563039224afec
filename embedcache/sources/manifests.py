"""Manifests: a CSV or Parquet table with the columns path and label, and optionally group, split and time."""

import os
from collections.abc import Collection, Sequence
from pathlib import Path, PurePosixPath

import pyarrow as pa

from frostbench.embedcache.cells import column_texts, known_cells
from frostbench.embedcache.items import Item, Listing, escape_name, make_listing, misspelt_headers
from frostbench.embedcache.sources.text_tables import TextTable, read_text_table
from frostbench.embedcache.sources.times import as_time

COLUMNS = ("path", "label", "group", "split", "time")
REQUIRED = ("path", "label")
EXTRAS = ("group", "split", "time")
LOOKED_AT = 1000
Extras = tuple[str | None, str | None, str | None]
"""Group, split and time of a row; None where unknown."""


def list_manifest(
    manifest: Path, *, root: Path | None = None, group_regex: str | None = None, time_regex: str | None = None
) -> Listing:
    """List the images that a table names.

    Relative paths are relative to `root`, or else to the manifest's folder. Ids are the paths as written, or
    relative to the root where the manifest holds absolute paths below it. A file that does not exist is listed, and
    quarantined when it is read. Empty cells of group, split and time mean "unknown"; so do words such as NA, with a
    warning.

    Args:
        manifest: a .csv (UTF-8 or UTF-16, with a header) or .parquet file.
        root: folder that relative paths start from.
        group_regex: takes groups from the ids, where the table has no group column.
        time_regex: takes times from the ids, where the table has no time column.

    Raises:
        ValueError: the file, its columns or its cells are not as above, or none of the first 1000 files exists.
    """
    base = (manifest.parent if root is None else root).absolute()
    table = _read(manifest)
    paths, labels = (_required(table.rows, name, manifest) for name in REQUIRED)
    extras, notes = read_extras(table.rows, [n for n in EXTRAS if n in table.names], manifest)
    items = [
        Item(_id(path, base), base / path, label, group, split, time)
        for path, label, (group, split, time) in zip(paths, labels, extras, strict=True)
    ]
    _check_some_exist(items, base)
    description = {
        "kind": "manifest",
        "manifest": escape_name(os.fspath(manifest.absolute())),
        "root": escape_name(os.fspath(base)),
    }
    warnings = [*ignored_columns(table.names, COLUMNS), *notes]
    return make_listing(items, set(labels), warnings, description, group_regex, time_regex)


def _read(manifest: Path) -> TextTable:
    """The table, with the columns that it needs."""
    table = read_text_table(manifest, COLUMNS, "a manifest", "path and label")
    check_headers(table.names, COLUMNS, manifest)
    if not set(REQUIRED) <= set(table.names):
        raise ValueError(
            f"a manifest must have the columns path and label once each, however: {manifest} has {table.names}. "
            f"{_advice(table.names)}"
        )
    return table


def check_headers(names: Sequence[str], known: Sequence[str], source: Path) -> None:
    """Refuse headers that are nearly those of columns that mean something: these would be ignored.

    Raises:
        ValueError: a header stands for a known one in other case or with spaces.
    """
    odd = misspelt_headers(names, known)
    if odd:
        raise ValueError(f"columns are told by their exact names, however: {source} has {odd}.")


def ignored_columns(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """A warning that says which columns mean nothing here; none where all do."""
    ignored = [name for name in names if name not in known]
    return [f"Columns that mean nothing here were ignored: {', '.join(ignored)}."] if ignored else []


def other_columns(names: Sequence[str], used: Collection[str], source: Path) -> tuple[list[str], list[str]]:
    """Those of group, split and time that a table of images holds beside its own columns, and a note on the rest.

    Raises:
        ValueError: a header stands for one of them in other case or with spaces.
    """
    rest = [name for name in names if name not in used]
    check_headers(rest, EXTRAS, source)
    return [name for name in EXTRAS if name in rest], ignored_columns(rest, EXTRAS)


def _advice(names: list[str]) -> str:
    """What to do about columns that are not there: one name with another delimiter in it was not cut at it."""
    found = next((sign for sign in ";\t|" if len(names) == 1 and sign in names[0]), None)
    if found is not None:
        return f"Its cells seem to be divided by {found!r}: write it with commas."
    return "Name them in its first line; rename or remove other columns of these names."


def _required(table: pa.Table, name: str, manifest: Path) -> list[str]:
    """The cells of a column that each row must have."""
    cells = column_texts(table[name], name, str(manifest))
    empty = [row for row, cell in enumerate(cells) if cell is None]
    if empty:
        raise ValueError(
            f"every row of a manifest must have a {name}, however: {len(empty)} rows of {manifest} have none, the "
            f"first is row {empty[0]} (counted from 0 after the header). Fill or remove them."
        )
    return [cell for cell in cells if cell is not None]


def read_times(cells: Sequence[str | None], manifest: Path) -> list[str | None]:
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


def read_extras(table: pa.Table, there: Sequence[str], source: Path) -> tuple[list[Extras], list[str]]:
    """Group, split and time of each row of a table, None where they are unknown, and notes for a person.

    Args:
        table: the rows.
        there: those of the three columns that it holds, and that mean this.
        source: where the table is, for messages.

    Raises:
        ValueError: a column holds neither text nor whole numbers, or a cell of `time` is no date or date-time.
    """
    cells, notes = {name: list[str | None]([None]) * table.num_rows for name in EXTRAS}, list[str]()
    for name in there:
        cells[name], told = known_cells(column_texts(table[name], name, str(source)), name)
        notes += told
    rows = zip(cells["group"], cells["split"], read_times(cells["time"], source), strict=True)
    return list(rows), notes


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
