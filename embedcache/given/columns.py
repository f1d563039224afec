"""A column of labels, groups or class names as callers have it: which cells are missing, and what the others are."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from frostbench.embedcache.cells import whole
from frostbench.embedcache.names import is_blank

Cell = str | int | bool | None
"""One value of a column; None where it is missing."""
KINDS: dict[type, str] = {str: "text", int: "integers", bool: "booleans"}


def read_cells(column: Any, what: str) -> list[Cell]:
    """The N cells of a column as text, integers or booleans, all of one kind; None where a cell is missing.

    Missing are None, NaN, pandas' NA and NaT, masked entries, and text that shows nothing. Floating-point numbers are
    taken where they are whole and below 2**53: a column of integers with a gap is stored as such.

    >>> read_cells([1.0, float("nan"), 3], "groups"), read_cells(["a", " ", None], "groups")
    ([1, None, 3], ['a', None, None])

    Args:
        column: [N] a sequence, an array, a tensor, or a column of pandas, polars or pyarrow.
        what: what it holds, in the plural, for messages.

    Raises:
        ValueError: it is no column, holds something else, or text beside numbers, which would merge 1 and "1".
    """
    values = _as_array(column, what)
    kind = values.dtype.kind
    found = [None if gone else value for value, gone in zip(values.tolist(), _missing(values), strict=True)]
    if kind not in "iub":
        found = [_plain(value, row, what) for row, value in enumerate(found)]
    kinds = {type(value) for value in found if value is not None}
    if len(kinds) > 1:
        told = " and ".join(sorted(KINDS[each] for each in kinds))
        raise ValueError(
            f"{what} are all of one kind, however: {told} came in one column, so that 1 and '1' would be merged. "
            "Convert them all to text, or all to integers."
        )
    return found


def read_texts(column: Any, what: str) -> list[str | None]:
    """As `read_cells`, with the cells as they are stored, which is as text.

    >>> read_texts([7, None], "groups"), read_texts([True], "groups")
    (['7', None], ['True'])
    """
    return [None if cell is None else str(cell) for cell in read_cells(column, what)]


def first_missing(cells: Sequence[Cell]) -> tuple[int, int]:
    """How many cells are missing, and the row of the first, -1 where none is.

    >>> first_missing(["a", None, None])
    (2, 1)
    """
    rows = [row for row, cell in enumerate(cells) if cell is None]
    return len(rows), rows[0] if rows else -1


def kept_type(column: Any, values: Sequence[Any]) -> npt.NDArray[Any]:
    """Values in the number type of the column that they came from; text as text, or as objects where that held them.

    >>> kept_type(np.array([1, 0], np.uint8), [0, 1]).dtype, kept_type(["a", "b"], ["a", "b"]).tolist()
    (dtype('uint8'), ['a', 'b'])
    """
    plain = np.array(values)
    if isinstance(column, list | tuple):
        return plain
    kind = column.dtype if isinstance(column, np.ndarray) else _as_array(column, "values").dtype
    if isinstance(column, np.ndarray) and kind.kind == "O":
        return _of_objects(values)
    if kind.kind in "iubf" and plain.dtype.kind in "iubf":
        converted = plain.astype(kind.newbyteorder("="))
        return converted if (converted == plain).all() else plain
    return plain


def _as_array(column: Any, what: str) -> npt.NDArray[Any]:
    """The column as an array [N]; one of objects where its values may differ in type."""
    if isinstance(column, str | bytes | Mapping | Set) or not hasattr(column, "__len__"):
        raise ValueError(f"{what} are a column of N values, however: {type(column).__name__} came. Pass a list.")
    if isinstance(column, torch.Tensor):
        x = column.detach().cpu()
        found: npt.NDArray[Any] = (x.float() if x.dtype == torch.bfloat16 else x).numpy()
    elif isinstance(column, np.ma.MaskedArray):
        found = np.ma.getdata(column).astype(object)
        found[np.ma.getmaskarray(column)] = None
    elif isinstance(column, np.ndarray):
        found = column
    elif hasattr(column, "to_pylist"):
        found = _of_objects(column.to_pylist())
    elif hasattr(column, "to_numpy"):
        found = np.asarray(column.to_numpy())
    else:
        found = _of_objects(column)
    if found.ndim != 1:
        raise ValueError(
            f"{what} are a column [N], however: {found.dtype} {list(found.shape)} came. Pass one value for each row; "
            "of one-hot rows that is their argmax."
        )
    return found


def _of_objects(values: Any) -> npt.NDArray[Any]:
    rows = list(values)
    found = np.empty(len(rows), dtype=object)
    for row, value in enumerate(rows):
        found[row] = value.item() if isinstance(value, np.generic | torch.Tensor) and value.ndim == 0 else value
    return found


def _missing(values: npt.NDArray[Any]) -> list[bool]:
    if values.dtype.kind in "iub":
        return [False] * len(values)
    gone: list[bool] = np.asarray(pd.isna(values)).tolist()
    if values.dtype.kind not in "OUT":
        return gone
    return [lost or (isinstance(v, str) and is_blank(v)) for v, lost in zip(values.tolist(), gone, strict=True)]


def _plain(value: Any, row: int, what: str) -> Cell:
    """A value as text, an integer or a boolean."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | str):
        return value if not isinstance(value, str) else str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if (found := whole(value)) is not None:
            return found
        raise ValueError(
            f"{what} that are floating-point numbers are whole and below 2**53, however: row {row} holds {value!r}. "
            "Convert them to text or to integers; measured numbers are no classes, and large ones are several integers."
        )
    raise ValueError(
        f"{what} are text, integers or booleans, however: row {row} holds {value!r:.60} of type "
        f"{type(value).__name__}. Convert them to text."
    )
