"""Reading of columns of labels, groups or class names given by callers, with their missing cells."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from frostbench.embedcache.cells import whole
from frostbench.embedcache.names import is_blank

Cell = str | int | bool | None
"""One value of a column; None if it is missing."""
KINDS: dict[type, str] = {str: "text", int: "integers", bool: "booleans"}


def read_cells(column: Any, what: str) -> list[Cell]:
    """Read the N cells of a column as text, integers or booleans, all of one type, with None for missing cells.

    None, NaN, pandas' NA and NaT, masked entries and blank text are missing. Floating-point numbers are accepted if
    they are whole and below 2**53, because columns of integers with missing cells are often stored as float.

    >>> read_cells([1.0, float("nan"), 3], "groups"), read_cells(["a", " ", None], "groups")
    ([1, None, 3], ['a', None, None])

    Args:
        column: sequence, array, tensor, or column of pandas, polars or pyarrow, [N].
        what: plural noun for the values, for messages.

    Raises:
        ValueError: `column` is not a column, has an unsupported value, or mixes types, which would merge 1 and "1".
    """
    values = _as_array(column, what)
    kind = values.dtype.kind
    cells = [None if missing else value for value, missing in zip(values.tolist(), _missing(values), strict=True)]
    if kind not in "iub":
        cells = [_plain(value, row, what) for row, value in enumerate(cells)]
    types = {type(value) for value in cells if value is not None}
    if len(types) > 1:
        mixed = " and ".join(sorted(KINDS[cell_type] for cell_type in types))
        raise ValueError(
            f"{what} must all have one type, got {mixed}, so that 1 and '1' would be merged. Convert all of them to "
            "text, or all to integers."
        )
    return cells


def read_texts(column: Any, what: str) -> list[str | None]:
    """Read cells as `read_cells` does, and convert them to text.

    >>> read_texts([7, None], "groups"), read_texts([True], "groups")
    (['7', None], ['True'])
    """
    return [None if cell is None else str(cell) for cell in read_cells(column, what)]


def first_missing(cells: Sequence[Cell]) -> tuple[int, int]:
    """Return the number of missing cells and the row of the first, -1 if no cell is missing.

    >>> first_missing(["a", None, None])
    (2, 1)
    """
    rows = [row for row, cell in enumerate(cells) if cell is None]
    return len(rows), rows[0] if rows else -1


def kept_type(column: Any, values: Sequence[Any]) -> npt.NDArray[Any]:
    """Convert values to the type of the column they came from: its number type, text, or objects.

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
    """Convert a column to an array [N], of objects if its values may differ in type."""
    if isinstance(column, str | bytes | Mapping | Set) or not hasattr(column, "__len__"):
        raise ValueError(f"{what} must be a column of N values, got {type(column).__name__}. Pass a list.")
    if isinstance(column, torch.Tensor):
        x = column.detach().cpu()
        array: npt.NDArray[Any] = (x.float() if x.dtype == torch.bfloat16 else x).numpy()
    elif isinstance(column, np.ma.MaskedArray):
        array = np.ma.getdata(column).astype(object)
        array[np.ma.getmaskarray(column)] = None
    elif isinstance(column, np.ndarray):
        array = column
    elif hasattr(column, "to_pylist"):
        array = _of_objects(column.to_pylist())
    elif hasattr(column, "to_numpy"):
        array = np.asarray(column.to_numpy())
    else:
        array = _of_objects(column)
    if array.ndim != 1:
        raise ValueError(
            f"{what} must be a column [N], got {array.dtype} {list(array.shape)}. Pass one value for each row, such as "
            "the argmax of one-hot rows."
        )
    return array


def _of_objects(values: Any) -> npt.NDArray[Any]:
    rows = list(values)
    objects = np.empty(len(rows), dtype=object)
    for row, value in enumerate(rows):
        objects[row] = value.item() if isinstance(value, np.generic | torch.Tensor) and value.ndim == 0 else value
    return objects


def _missing(values: npt.NDArray[Any]) -> list[bool]:
    if values.dtype.kind in "iub":
        return [False] * len(values)
    missing: list[bool] = np.asarray(pd.isna(values)).tolist()
    if values.dtype.kind not in "OUT":
        return missing
    return [is_na or (isinstance(v, str) and is_blank(v)) for v, is_na in zip(values.tolist(), missing, strict=True)]


def _plain(value: Any, row: int, what: str) -> Cell:
    """Convert a value to text, an integer or a boolean."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | str):
        return value if not isinstance(value, str) else str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if (integer := whole(value)) is not None:
            return integer
        raise ValueError(
            f"floating-point {what} must be whole numbers below 2**53, but row {row} holds {value!r}. Convert them to "
            "text or to integers; larger numbers are not exact, and measurements are not categories."
        )
    raise ValueError(
        f"{what} must be text, integers or booleans, but row {row} holds {value!r:.60} of type "
        f"{type(value).__name__}. Convert them to text."
    )
