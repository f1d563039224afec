"""Vectors as callers have them: which arrays are taken, and which rows are no numbers."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

ROWS_AT_ONCE = 65_536
"""Rows that are looked at at a time."""
KINDS = ("float16", "float32", "float64")


def read_vectors(x: Any, what: str = "vectors", *, tokens: bool = False) -> npt.NDArray[Any]:
    """Vectors [N, D] as float16, float32 or float64 in the machine's byte order.

    Integers, booleans and extended precision become float64, bfloat16 becomes float32; nothing else is converted. Gaps
    of a data frame and masked entries become NaN, which `check_finite` tells.

    >>> read_vectors([[1, 2], [3, 4]]).tolist()
    [[1.0, 2.0], [3.0, 4.0]]

    Args:
        x: an array, a tensor, a data frame or nested lists; gradients are left behind.
        what: what they are called in messages, in the plural.
        tokens: whether [N, T, D] is allowed as well.

    Raises:
        ValueError: it is no matrix, has no column, or holds something else than real numbers.
    """
    found = _as_array(x, what)
    if found.dtype == object:
        found = _numbers(found, what)
    if found.dtype.kind in "iub" or (found.dtype.kind == "f" and found.dtype.name not in KINDS):
        found = found.astype(np.float64)
    if found.dtype.kind != "f":
        raise ValueError(
            f"{what} are real numbers, however: {found.dtype} {list(found.shape)} came. Leave out columns of text, and "
            "convert the others."
        )
    if found.ndim != 2 and not (tokens and found.ndim == 3):
        advice = "Pass x[None] for one vector." if found.ndim == 1 else "Pool tokens, or flatten them."
        raise ValueError(f"{what} are a matrix [N, D], however: {found.dtype} {list(found.shape)} came. {advice}")
    if found.shape[-1] == 0:
        raise ValueError(
            f"{what} are a matrix [N, D] with a column or more, however: {list(found.shape)} came. Is it the right "
            "array?"
        )
    return found if found.dtype.isnative else found.astype(found.dtype.newbyteorder("="))


def check_finite(
    x: npt.NDArray[Any], what: str = "vectors", name: Callable[[int], str] = str, largest: float = np.inf
) -> None:
    """Refuse rows of x [N, …] that hold NaN, infinity, or a number beyond the largest.

    Args:
        x: the rows.
        what: what they are called, in the plural.
        name: what a row is called, from its number.
        largest: bound of what can be kept.

    Raises:
        ValueError: there is such a row; the message counts them, and names the first and what it holds.
    """
    count, first, held = 0, -1, 0.0
    for start in range(0, len(x), ROWS_AT_ONCE):
        part = x[start : start + ROWS_AT_ONCE].reshape(len(x[start : start + ROWS_AT_ONCE]), -1)
        fits = np.isfinite(part) & (np.abs(part) <= np.float64(largest))
        rows = np.flatnonzero(~fits.all(axis=1))
        if count == 0 and len(rows):
            first = start + int(rows[0])
            held = float(part[rows[0]][~fits[rows[0]]][0])
        count += len(rows)
    if count:
        bound = "" if np.isinf(largest) else f" and within ±{largest:.6g}"
        raise ValueError(
            f"{what} are finite{bound}, however: {count} of {len(x)} rows are not, the first is row {name(first)}, "
            f"which holds {held}. Mend what made them, or drop these rows."
        )


def check_lengths(columns: dict[str, Sequence[Any]]) -> None:
    """Refuse arrays of other lengths than one another, or without rows.

    Raises:
        ValueError: their lengths differ, or are 0.
    """
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"arrays have one entry for each row, however: their lengths are {lengths}. Align them.")
    if 0 in lengths.values():
        raise ValueError("there are rows to learn from, however: the arrays have none. Is it the right selection?")


def _as_array(x: Any, what: str) -> npt.NDArray[Any]:
    if isinstance(x, torch.Tensor):
        x = (x.to_dense() if x.layout != torch.strided else x).detach().cpu().resolve_neg()
        return np.asarray((x.float() if x.dtype in _NOT_IN_NUMPY else x).numpy())
    if isinstance(x, np.ma.MaskedArray):
        return np.asarray(np.ma.filled(x.astype(np.float64), np.nan))
    if hasattr(x, "toarray"):
        raise ValueError(f"{what} are a dense matrix, however: {type(x).__name__} came. Pass x.toarray().")
    try:
        return np.asarray(x)
    except ValueError as error:
        raise ValueError(
            f"{what} are a matrix [N, D], however: {type(x).__name__} came whose rows differ in length ({error}). Give "
            "each row as many numbers."
        ) from error


_NOT_IN_NUMPY = (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)


def _numbers(x: npt.NDArray[Any], what: str) -> npt.NDArray[np.float64]:
    """An array of Python numbers and gaps as float64, with NaN for the gaps."""
    gone = np.asarray(pd.isna(x))
    odd = next((value for value in x[~gone].tolist() if not isinstance(value, int | float | np.number)), None)
    if odd is not None:
        raise ValueError(
            f"{what} are real numbers, however: {odd!r:.60} of type {type(odd).__name__} came among them. Leave out "
            "columns of text, and convert the others."
        )
    return np.where(gone, np.nan, x).astype(np.float64)
