"""Reading and checking of vectors given by callers."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

ROWS_AT_ONCE = 65_536
"""Number of rows that are checked at once."""
KINDS = ("float16", "float32", "float64")


def read_vectors(x: Any, what: str = "vectors", *, tokens: bool = False) -> npt.NDArray[Any]:
    """Read vectors [N, D] as float16, float32 or float64 in native byte order.

    Integers, booleans and extended precision become float64; bfloat16 and float8 become float32. Missing cells of a
    data frame and masked entries become NaN, which `check_finite` reports.

    >>> read_vectors([[1, 2], [3, 4]]).tolist()
    [[1.0, 2.0], [3.0, 4.0]]

    Args:
        x: array, tensor, data frame or nested lists; gradients are dropped.
        what: plural noun for the vectors, for messages.
        tokens: whether [N, T, D] is also allowed.

    Raises:
        ValueError: `x` is not a matrix, has no columns, or holds values other than real numbers.
    """
    array = _as_array(x, what)
    if array.dtype == object:
        array = _numbers(array, what)
    if array.dtype.kind in "iub" or (array.dtype.kind == "f" and array.dtype.name not in KINDS):
        array = array.astype(np.float64)
    shown = f"{array.dtype} {list(array.shape)}"
    if array.dtype.kind != "f":
        raise ValueError(
            f"{what} must be real numbers, got {shown}. Leave out columns of text, and convert the others."
        )
    if array.ndim != 2 and not (tokens and array.ndim == 3):
        advice = "Pass x[None] for one vector." if array.ndim == 1 else "Pool tokens, or flatten them."
        raise ValueError(f"{what} must be a matrix [N, D], got {shown}. {advice}")
    if array.shape[-1] == 0:
        raise ValueError(f"{what} must have at least one column, got {shown}. Check that it is the right array.")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def check_finite(
    x: npt.NDArray[Any], what: str = "vectors", name: Callable[[int], str] = str, largest: float = np.inf
) -> None:
    """Refuse rows of x [N, …] that hold NaN, infinity, or a number beyond a bound.

    Args:
        x: rows to check.
        what: plural noun for the rows, for messages.
        name: function from the index of a row to its name.
        largest: bound on the absolute value.

    Raises:
        ValueError: there are such rows; the message states their number, and the name and value of the first.
    """
    count, first, value = 0, -1, 0.0
    for start in range(0, len(x), ROWS_AT_ONCE):
        part = x[start : start + ROWS_AT_ONCE].reshape(len(x[start : start + ROWS_AT_ONCE]), -1)
        fits = np.isfinite(part) & (np.abs(part) <= np.float64(largest))
        rows = np.flatnonzero(~fits.all(axis=1))
        if count == 0 and len(rows):
            first = start + int(rows[0])
            value = float(part[rows[0]][~fits[rows[0]]][0])
        count += len(rows)
    if count:
        bound = "" if np.isinf(largest) else f" and within ±{largest:.6g}"
        raise ValueError(
            f"{what} must be finite{bound}, but {count} of {len(x)} rows {'is' if count == 1 else 'are'} not; the "
            f"first is row {name(first)}, which holds {value}. Fix the program that made the vectors, or drop "
            "such rows."
        )


def check_lengths(columns: dict[str, Sequence[Any]]) -> None:
    """Raise ValueError if the lengths of arrays differ or are 0."""
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"arrays must have one entry for each row, but their lengths are {lengths}. Align them.")
    if 0 in lengths.values():
        raise ValueError("arrays must have at least one row, got none. Check how the rows were selected.")


def _as_array(x: Any, what: str) -> npt.NDArray[Any]:
    if isinstance(x, torch.Tensor):
        x = (x.to_dense() if x.layout != torch.strided else x).detach().cpu().resolve_neg()
        return np.asarray((x.float() if x.dtype in _NOT_IN_NUMPY else x).numpy())
    if isinstance(x, np.ma.MaskedArray):
        return np.asarray(np.ma.filled(x.astype(np.float64), np.nan))
    if hasattr(x, "toarray"):
        raise ValueError(f"{what} must be a dense matrix, got {type(x).__name__}. Pass x.toarray().")
    try:
        return np.asarray(x)
    except ValueError as error:
        raise ValueError(
            f"{what} must be a matrix [N, D], but the rows of the {type(x).__name__} differ in length ({error}). Give "
            "all rows the same length."
        ) from error


_NOT_IN_NUMPY = (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)


def _numbers(x: npt.NDArray[Any], what: str) -> npt.NDArray[np.float64]:
    """Convert Python numbers to float64, and missing cells to NaN."""
    missing = np.asarray(pd.isna(x))
    odd = next((value for value in x[~missing].tolist() if not isinstance(value, int | float | np.number)), None)
    if odd is not None:
        raise ValueError(
            f"{what} must be real numbers, but they contain {odd!r:.60} of type {type(odd).__name__}. Leave out "
            "columns of text, and convert the others."
        )
    return np.where(missing, np.nan, x).astype(np.float64)
