"""Cells of text columns, whether they come from a CSV file, from Parquet, or from arrays in memory."""

import math
import numbers
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from frostbench.embedcache.names import is_blank

UNKNOWN_WORDS = frozenset({"NA", "N/A", "#N/A", "<NA>", "NaN", "nan", "NaT", "NULL", "null", "None"})
"""What programs write into an optional column where they know nothing: R, pandas, NumPy, Excel, databases."""
_MISSING_TYPES = frozenset({"NAType", "NaTType"})
_EXACT = 2**53
"""From here on float64 has one number for several integers."""


def known_cells(cells: Sequence[str | None], name: str) -> tuple[list[str | None], list[str]]:
    """The cells of an optional column without words that programs write for "unknown", and a note that says which.

    >>> known_cells(["p1", "NA", None], "group")[0]
    ['p1', None, None]
    """
    words = Counter(cell for cell in cells if cell in UNKNOWN_WORDS)
    if not words:
        return list(cells), []
    told = ", ".join(f"{count} × {word}" for word, count in sorted(words.items()))
    note = f"Cells of column {name!r} that say {told} were taken as unknown. If that is a name, write it otherwise."
    return [None if cell in UNKNOWN_WORDS else cell for cell in cells], [note]


def as_texts(values: Sequence[Any], name: str, where: str) -> list[str | None]:
    """Texts and whole numbers as text, None where a cell is missing or blank.

    Raises:
        ValueError: a cell is neither text nor a whole number.
    """
    found = list[str | None]()
    for row, value in enumerate(values):
        try:
            found.append(_as_text(value))
        except TypeError:
            raise ValueError(
                f"column {name!r} must hold text or whole numbers, however: row {row} of {where} (counted from 0) "
                f"holds {value!r}, a {type(value).__name__}. Convert it: a class named 1.0 is no class 1."
            ) from None
    return found


def _as_text(value: Any) -> str | None:
    """One cell.

    Raises:
        TypeError: it is neither text nor a whole number.
    """
    if value is None or type(value).__name__ in _MISSING_TYPES:
        return None
    if isinstance(value, str):
        return None if is_blank(value) else value
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        raise TypeError
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        found = whole(float(value))
        if found is None and not math.isnan(value):
            raise TypeError
        return None if found is None else str(found)
    raise TypeError


def whole(value: float) -> int | None:
    """The integer that a floating-point number stands for; None where it is none, or too large to be told from others.

    >>> whole(7.0), whole(1.5), whole(2.0**60)
    (7, None, None)
    """
    return int(value) if value.is_integer() and abs(value) < _EXACT else None


def column_texts(column: pa.ChunkedArray, name: str, where: str) -> list[str | None]:
    """The cells of a column of a table as text, None where they are missing or blank.

    Whole numbers may be stored as floating point, as pandas does where a cell of a column of integers is empty.
    Dates and timestamps are text in the column `time`.

    Raises:
        ValueError: the column holds something else than text and whole numbers.
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
            f"column {name!r} must hold text or whole numbers, however: {where} holds {kind}. Convert it: a class "
            "named 1.0 is no class 1."
        )
    cells: list[str | None] = column.cast(pa.string()).to_pylist()
    return [None if cell is None or is_blank(cell) else cell for cell in cells]
