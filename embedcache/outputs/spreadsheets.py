"""CSV files that people open in spreadsheets, which take cells that begin with certain signs for formulas.

OWASP, "CSV Injection": a name of an image or a class that begins with one of `= + - @`, a tab or a line break is
computed when the file is opened, and may call programs. The remedy named there is an apostrophe before it. Files that
are read by programs, ours among them, are written as they are: .json and .parquet, and rows.csv of an exported cache.
"""

import csv
import re
from collections.abc import Hashable, Iterator
from pathlib import Path

import pandas as pd

_FORMULA = re.compile("[=+@\t\r\n＝＋－＠-]")


def as_cell(text: str) -> str:
    """A text that no spreadsheet computes; numbers stay as they are.

    >>> as_cell("=HYPERLINK(A1)"), as_cell("-1.5"), as_cell("a=b"), as_cell("-a")
    ("'=HYPERLINK(A1)", '-1.5', 'a=b', "'-a")
    """
    return f"'{text}" if _FORMULA.match(text) and not _is_number(text) else text


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a table whose texts no spreadsheet computes, and whose cells may hold line breaks of every kind."""
    found = guarded(frame)
    # Python's writer quotes a carriage return only where it ends its own lines (before 3.13).
    returns = any("\r" in text for text in (*found.columns, *_cells(found)))
    found.to_csv(path, index=False, quoting=csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL)


def guarded(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with an apostrophe before each text, and each header, that a spreadsheet would compute."""
    found = frame.copy()
    for name in _texts(frame):
        found[name] = frame[name].map(lambda cell: as_cell(cell) if isinstance(cell, str) else cell)
    return found.rename(columns=lambda name: as_cell(str(name)))


def formula_note(frame: pd.DataFrame) -> str | None:
    """How many texts `write_csv` changes, in a sentence for a person; None where it changes none."""
    changed = sum(as_cell(text) != text for text in (*map(str, frame.columns), *_cells(frame)))
    if not changed:
        return None
    return (
        f"{changed} texts that a spreadsheet would take for formulas have an apostrophe before them; .json and "
        ".parquet hold them as they are."
    )


def _texts(frame: pd.DataFrame) -> list[Hashable]:
    """The columns that may hold texts."""
    return [name for name in frame if not pd.api.types.is_numeric_dtype(frame[name])]


def _cells(frame: pd.DataFrame) -> Iterator[str]:
    """All texts in a table."""
    return (cell for name in _texts(frame) for cell in frame[name].tolist() if isinstance(cell, str))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()
