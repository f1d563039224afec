"""Checks of the vectors that a head predicts from: present, of the right width, and finite."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

NOT_FINITE = "its vector holds NaN or infinity, so no class can be named"
"""Reason why a row has no prediction."""


def joined(columns: Mapping[str, Tensor], names: Sequence[str], width: int, tokens: bool) -> Tensor:
    """Concatenate the named columns to float32 [N, D], or tokens [N, T, D].

    Args:
        columns: vectors by column, tensors or arrays of any real type.
        names: columns in order.
        width: D, the sum of the columns' dimensions.
        tokens: whether the columns hold tokens.

    Raises:
        ValueError: a column is missing, does not hold real numbers, or has another number of dimensions, width or
            number of rows; or a row is not finite, and the message counts such rows and names the first.
    """
    missing = [name for name in names if name not in columns]
    if missing:
        raise ValueError(
            f"This head reads the columns {list(names)}, but {missing} are not among {sorted(columns)}. Pass the "
            "table the head was trained on, or one of the same recipe."
        )
    parts = [_as_tensor(name, columns[name]) for name in names]
    shapes = {name: list(x.shape) for name, x in zip(names, parts, strict=True)}
    form = "[N, T, D] of tokens" if tokens else "[N, D]"
    if any(x.ndim != (3 if tokens else 2) or x.shape[:-1] != parts[0].shape[:-1] for x in parts):
        hint = " Pass x[None] for a single vector." if any(x.ndim == 1 for x in parts) else ""
        raise ValueError(f"This head reads arrays {form} with the same rows, got {shapes}.{hint}")
    if sum(x.shape[-1] for x in parts) != width:
        raise ValueError(
            f"This head was trained on {width} dimensions, got {shapes}. Pass vectors of the backbone and pooling that "
            "it was trained on."
        )
    x = torch.cat([x.float() for x in parts], -1)
    rows = (~finite_rows([x])).nonzero().squeeze(1).tolist()
    if rows:
        raise ValueError(
            f"Vectors must be finite, but {len(rows)} of {len(x)} rows {'holds' if len(rows) == 1 else 'hold'} NaN or "
            f"infinity, first row {rows[0]}. Fix the extraction, or leave these rows out."
        )
    return x


def _as_tensor(name: str, x: Any) -> Tensor:
    """Return vectors as a tensor; arrays of any byte order and layout are copied to float32.

    Raises:
        ValueError: they do not hold real numbers.
    """
    if isinstance(x, Tensor) and not x.is_complex():
        return x
    array = None if isinstance(x, Tensor) else np.asarray(x)
    if array is None or array.dtype.kind not in "fiub":
        kind = x.dtype if array is None else array.dtype
        raise ValueError(
            f"This head reads vectors of real numbers, but column {name!r} holds {kind}. Convert it to float32."
        )
    with np.errstate(over="ignore"):
        return torch.from_numpy(np.array(array, dtype=np.float32))


def finite_rows(columns: Sequence[Tensor]) -> Tensor:
    """Return a mask [N] of the rows whose values are finite in float32 in every column [N, …].

    >>> finite_rows([torch.tensor([[1.0], [torch.inf]]), torch.ones(2, 3)]).tolist()
    [True, False]
    """
    return torch.stack([x.float().isfinite().flatten(1).all(1) for x in columns]).all(0)
