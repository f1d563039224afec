"""Manifests: a CSV or Parquet table with the columns path and label, and optionally group, split and time."""

import os
from collections.abc import Collection, Sequence
from pathlib import Path, PurePosixPath

import pyarrow as pa

from frostbench.embedcache.cells import column_texts, known_cells
from frostbench.embedcache.counting import things
from frostbench.embedcache.items import Item, Listing, escape_name, make_listing, misspelt_headers
from frostbench.embedcache.sources.text_tables import TextTable, read_text_table
from frostbench.embedcache.sources.times import as_time

COLUMNS = ("path", "label", "group", "split", "time")
REQUIRED = ("path", "label")
EXTRAS = ("group", "split", "time")
LOOKED_AT = 1000
Extras = tuple[str | None, str | None, str | None]
"""Group, split and time of a row; None if unknown."""


def list_manifest(
    manifest: Path, *, root: Path | None = None, group_regex: str | None = None, time_regex: str | None = None
) -> Listing:
    """List the images named in a table.

    Relative paths are relative to `root`, by default the manifest's folder. Ids are the paths as written, or relative
    to the root for absolute paths below it. Files that do not exist are listed, and quarantined when they are read.
    Empty cells of group, split and time mean "unknown", and so do words such as NA, with a warning. An image with an
    empty label cell has no label.

    Args:
        manifest: a .csv (UTF-8 or UTF-16, with a header) or .parquet file.
        root: folder at which relative paths start.
        group_regex: regex that extracts groups from ids, if the table has no group column.
        time_regex: regex that extracts times from ids, if the table has no time column.

    Raises:
        ValueError: the file, its columns or its cells are not as above, or none of the first 1000 files exists.
    """
    base = (manifest.parent if root is None else root).absolute()
    table = _read(manifest)
    paths = _paths(table.rows, manifest)
    labels, label_notes = _labels(table.rows, manifest)
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
    warnings = [*ignored_columns(table.names, COLUMNS), *label_notes, *notes]
    return make_listing(items, {*labels} - {""}, warnings, description, group_regex, time_regex)


def _read(manifest: Path) -> TextTable:
    """Read the table and check its columns."""
    table = read_text_table(manifest, COLUMNS, "a manifest", "path and label")
    check_headers(table.names, COLUMNS, manifest)
    if not set(REQUIRED) <= set(table.names):
        raise ValueError(
            f"A manifest must have the columns path and label once each, but {manifest} has {table.names}. "
            f"{_advice(table.names)}"
        )
    return table


def check_headers(names: Sequence[str], known: Sequence[str], source: Path) -> None:
    """Refuse headers that differ from known ones only by case or spaces, because they would be ignored.

    Raises:
        ValueError: there is such a header.
    """
    odd = misspelt_headers(names, known)
    if odd:
        raise ValueError(f"Column names must be exact, but {source} has {odd}.")


def ignored_columns(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return a warning about unknown columns, if there are any."""
    ignored = [name for name in names if name not in known]
    return [f"Unknown columns were ignored: {', '.join(ignored)}."] if ignored else []


def other_columns(names: Sequence[str], used: Collection[str], source: Path) -> tuple[list[str], list[str]]:
    """Return which of group, split and time a table of images has, and a note about unknown columns.

    Raises:
        ValueError: a header differs from one of these three only by case or spaces.
    """
    rest = [name for name in names if name not in used]
    check_headers(rest, EXTRAS, source)
    return [name for name in EXTRAS if name in rest], ignored_columns(rest, EXTRAS)


def _advice(names: list[str]) -> str:
    """Return advice on missing columns: perhaps the file uses another delimiter."""
    found = next((sign for sign in ";\t|" if len(names) == 1 and sign in names[0]), None)
    if found is not None:
        return f"Its cells seem to be separated by {found!r}: use commas."
    return "Name them in its first line, and rename or remove duplicates."


def _paths(table: pa.Table, manifest: Path) -> list[str]:
    """Return the path of each row."""
    cells = column_texts(table["path"], "path", str(manifest))
    empty = [row for row, cell in enumerate(cells) if cell is None]
    if empty:
        rows = things(len(empty), f"row of {manifest} has", f"rows of {manifest} have")
        raise ValueError(
            f"Every row of a manifest must have a path, but {rows} none; the first is row {empty[0]} (counted from 0 "
            "after the header). Fill in the missing values, or remove such rows."
        )
    return [cell for cell in cells if cell is not None]


def _labels(table: pa.Table, manifest: Path) -> tuple[list[str], list[str]]:
    """Return the label of each row, "" if it has none, and a note about rows without one."""
    labels = [cell or "" for cell in column_texts(table["label"], "label", str(manifest))]
    lacking = labels.count("")
    if labels and lacking == len(labels):
        raise ValueError(
            f"A manifest must have a label for some of its images, but {manifest} has none. Label a few of each class."
        )
    if not lacking:
        return labels, []
    are = things(lacking, "image has no label: it is", "images have no label: they are")
    return labels, [f"{are} embedded and shown, but neither split nor trained on."]


def read_times(cells: Sequence[str | None], manifest: Path) -> list[str | None]:
    """Parse the times in the cells of a manifest; None for empty cells.

    Raises:
        ValueError: a cell is not a date or date-time.
    """
    times = [as_time(cell) if cell else None for cell in cells]
    wrong = [row for row, (cell, time) in enumerate(zip(cells, times, strict=True)) if cell and time is None]
    if wrong:
        raise ValueError(
            f"Times in a manifest must be ISO 8601, such as 2024-01-31 or 2024-01-31T10:20:30, but row {wrong[0]} of "
            f"{manifest} (counted from 0 after the header) has {cells[wrong[0]]!r}; "
            f"{things(len(wrong), 'row is', 'rows are')} invalid. Correct such rows, or rename the column if it "
            "contains something else."
        )
    return times


def read_extras(table: pa.Table, there: Sequence[str], source: Path) -> tuple[list[Extras], list[str]]:
    """Return group, split and time of each row of a table (None if unknown), and notes for the user.

    Args:
        table: the rows.
        there: which of the three columns to use.
        source: file of the table, for messages.

    Raises:
        ValueError: a column holds neither text nor integers, or a cell of `time` is not a date or date-time.
    """
    cells, notes = {name: list[str | None]([None]) * table.num_rows for name in EXTRAS}, list[str]()
    for name in there:
        cells[name], cell_notes = known_cells(column_texts(table[name], name, str(source)), name)
        notes += cell_notes
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
            f"The files of a manifest must exist, but none of the first {len(looked_at)} does, for example "
            f"{looked_at[0].path}. Relative paths start at {base}: set the right root."
        )
