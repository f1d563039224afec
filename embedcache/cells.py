"""Conversion of cells from CSV files, Parquet files or arrays in memory to text."""

import math
import numbers
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from frostbench.embedcache.names import is_blank

UNKNOWN_WORDS = frozenset({"NA", "N/A", "#N/A", "<NA>", "NaN", "nan", "NaT", "NULL", "null", "None"})
"""Markers for missing values written by R, pandas, NumPy, Excel and databases."""
_MISSING_TYPES = frozenset({"NAType", "NaTType"})
_EXACT = 2**53
"""From this number on, several integers share one float64 value."""


def known_cells(cells: Sequence[str | None], name: str) -> tuple[list[str | None], list[str]]:
    """Replace markers for missing values in an optional column by None, and return a note that lists them.

    >>> known_cells(["p1", "NA", None], "group")[0]
    ['p1', None, None]
    """
    words = Counter(cell for cell in cells if cell in UNKNOWN_WORDS)
    if not words:
        return list(cells), []
    counts = ", ".join(f"{count} × {word}" for word, count in sorted(words.items()))
    note = f"Cells of column {name!r} were treated as missing: {counts}. If such a word is a real name, rename it."
    return [None if cell in UNKNOWN_WORDS else cell for cell in cells], [note]


def as_texts(values: Sequence[Any], name: str, where: str) -> list[str | None]:
    """Convert text and whole numbers to text; a missing or blank cell becomes None.

    Raises:
        ValueError: a cell is neither text nor a whole number.
    """
    cells = list[str | None]()
    for row, value in enumerate(values):
        try:
            cells.append(_as_text(value))
        except TypeError:
            raise ValueError(
                f"column {name!r} must hold text or whole numbers, but row {row} of {where} (counted from 0) holds "
                f"{value!r} of type {type(value).__name__}. Convert the column to text."
            ) from None
    return cells


def _as_text(value: Any) -> str | None:
    """Convert one cell; raise TypeError if it is neither text nor a whole number."""
    if value is None or type(value).__name__ in _MISSING_TYPES:
        return None
    if isinstance(value, str):
        return None if is_blank(value) else value
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        raise TypeError
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        integer = whole(float(value))
        if integer is None and not math.isnan(value):
            raise TypeError
        return None if integer is None else str(integer)
    raise TypeError


def whole(value: float) -> int | None:
    """Return the integer that a float represents, or None if it is fractional or too large to be exact.

    >>> whole(7.0), whole(1.5), whole(2.0**60)
    (7, None, None)
    """
    return int(value) if value.is_integer() and abs(value) < _EXACT else None


def column_texts(column: pa.ChunkedArray, name: str, where: str) -> list[str | None]:
    """Convert the cells of a table column to text; a missing or blank cell becomes None.

    Whole numbers may be stored as floating point, as by pandas if a column of integers has an empty cell. Dates and
    timestamps are accepted in the column `time` only.

    Raises:
        ValueError: the column holds something other than text and whole numbers.
    """
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_floating(kind):
        return as_texts(column.to_pylist(), name, where)
    fits = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_string_view,
        pa.types.is_integer,
        pa.types.is_null,
    )
    fits += (pa.types.is_date, pa.types.is_timestamp) if name == "time" else ()
    if not any(is_kind(kind) for is_kind in fits):
        raise ValueError(
            f"column {name!r} must hold text or whole numbers, but in {where} its type is {kind}. Convert it to text."
        )
    cells: list[str | None] = column.cast(pa.string()).to_pylist()
    return [None if cell is None or is_blank(cell) else cell for cell in cells]
