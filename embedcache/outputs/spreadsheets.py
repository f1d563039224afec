"""CSV files that are safe to open in spreadsheets, which evaluate cells that begin with certain characters.

OWASP, "CSV Injection": a name that begins with one of `= + - @`, a tab or a line break is evaluated as a formula when
the file is opened, and may run programs. The remedy recommended there is a leading apostrophe. Files that are read by
programs are written unchanged: .json and .parquet, and rows.csv of an exported cache.
"""

import csv
import re
from collections.abc import Hashable, Iterator
from pathlib import Path

import pandas as pd

from frostbench.embedcache.counting import things

_FORMULA = re.compile("[=+@\t\r\n＝＋－＠-]")


def as_cell(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would evaluate; numbers stay unchanged.

    >>> as_cell("=HYPERLINK(A1)"), as_cell("-1.5"), as_cell("a=b"), as_cell("-a")
    ("'=HYPERLINK(A1)", '-1.5', 'a=b', "'-a")
    """
    return f"'{text}" if _FORMULA.match(text) and not _is_number(text) else text


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a table with safe texts, whose cells may hold any kind of line break."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(csv_text(frame))


def csv_text(frame: pd.DataFrame) -> str:
    """Return a table with safe texts as the text of a CSV file; see `write_csv`."""
    safe = guarded(frame)
    # Before Python 3.13, the writer does not always quote a carriage return.
    has_returns = any("\r" in text for text in (*safe.columns, *_cells(safe)))
    return safe.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC if has_returns else csv.QUOTE_MINIMAL)


def guarded(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with an apostrophe before each text and header that a spreadsheet would evaluate."""
    safe = frame.copy()
    for name in _text_columns(frame):
        safe[name] = frame[name].map(lambda cell: as_cell(cell) if isinstance(cell, str) else cell)
    return safe.rename(columns=lambda name: as_cell(str(name)))


def formula_note(frame: pd.DataFrame) -> str | None:
    """Return a note about the number of texts that `write_csv` changes, or None if it changes none."""
    changed = sum(as_cell(text) != text for text in (*map(str, frame.columns), *_cells(frame)))
    if not changed:
        return None
    one = "text that a spreadsheet would evaluate as a formula is"
    texts = things(changed, one, "texts that a spreadsheet would evaluate as formulas are")
    return f"{texts} written with a leading apostrophe, which .json and .parquet files do not have."


def _text_columns(frame: pd.DataFrame) -> list[Hashable]:
    return [name for name in frame if not pd.api.types.is_numeric_dtype(frame[name])]


def _cells(frame: pd.DataFrame) -> Iterator[str]:
    return (cell for name in _text_columns(frame) for cell in frame[name].tolist() if isinstance(cell, str))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()
