"""Printing data frames to the terminal and writing them to files."""

from pathlib import Path

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from frostbench.app.progress import note
from frostbench.benchmarks.settings.nouns import with_noun
from frostbench.embedcache.names import one_line
from frostbench.embedcache.outputs import tables
from frostbench.embedcache.outputs.places import check_file
from frostbench.embedcache.outputs.spreadsheets import formula_note
from frostbench.embedcache.outputs.tables import TABLES as TABLES

WIDE = 2000
"""Line width for output to a file or a pipe, wide enough that no cell is cut."""


def print_frame(frame: pd.DataFrame, most: int) -> None:
    """Print the first `most` rows of a frame and the number of remaining rows."""
    if frame.empty:
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDE)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    numbers = {name for name in frame if pd.api.types.is_numeric_dtype(frame[name]) and frame[name].dtype != bool}
    for name in frame:
        table.add_column(Text(one_line(str(name))), justify="right" if name in numbers else "left", overflow="fold")
    for line in frame.head(most).itertuples(index=False):
        table.add_row(*(Text(_cell(value)) for value in line))
    console.print(table)
    if len(frame) > most:
        print(f"and {len(frame) - most} more; --out writes all rows")


def _cell(value: object) -> str:
    """Format a value: floats with four decimals, True as "yes", False as an empty cell."""
    if isinstance(value, float):
        return f"{value:.4f}"
    return {"True": "yes", "False": ""}.get(str(value), one_line(str(value)))


def check_out(out: Path | None, endings: tuple[str, ...]) -> None:
    """Check before any computation that an output file can be written.

    Raises:
        OutputError: the file has another ending, or cannot be written.
    """
    if out is not None:
        check_file(out, endings)


def write_frame(frame: pd.DataFrame, out: Path | None) -> None:
    """Write a table as .csv, .json (records) or .parquet by the file's ending, unless `out` is None."""
    if out is None:
        return
    tables.write_frame(frame, out)
    print(f"{out}: {with_noun(len(frame), 'row')}")
    if out.suffix.lower() == ".csv" and (warning := formula_note(frame)):
        note(warning)
