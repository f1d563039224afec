"""The vectors that a head is given to predict: joined, of its width, and finite."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

NOT_FINITE = "its vector holds NaN or infinity, so no class can be named"
"""Why a row has no prediction."""


def joined(columns: Mapping[str, Tensor], names: Sequence[str], width: int, tokens: bool) -> Tensor:
    """The named columns side by side, float32 [N, D], or tokens [N, T, D].

    Args:
        columns: vectors by column, of any real type.
        names: of the columns, in order.
        width: D, the sum of the columns' dimensions.
        tokens: whether the columns hold tokens.

    Raises:
        ValueError: a column is missing, is no matrix (or no tokens), has another width or other rows, or a row is not
            finite; the message counts such rows and names the first.
    """
    missing = [name for name in names if name not in columns]
    if missing:
        raise ValueError(
            f"this head reads the columns {list(names)}, however: {missing} came not among "
            f"{sorted(columns)}. Pass the table the head was trained on, or one of the same recipe."
        )
    found = [columns[name] for name in names]
    shapes = {name: list(x.shape) for name, x in zip(names, found, strict=True)}
    form = "[N, T, D] of tokens" if tokens else "[N, D]"
    if any(x.ndim != (3 if tokens else 2) or x.shape[:-1] != found[0].shape[:-1] for x in found):
        one = " Pass x[None] for one vector." if any(x.ndim == 1 for x in found) else ""
        raise ValueError(f"this head reads arrays {form} with the same rows, however: {shapes} came.{one}")
    if sum(x.shape[-1] for x in found) != width:
        raise ValueError(
            f"this head was trained on {width} dimensions, however: {shapes} came. Pass vectors of the backbone and "
            "pooling that it was trained on."
        )
    x = torch.cat([x.float() for x in found], -1)
    rows = (~finite_rows([x])).nonzero().squeeze(1).tolist()
    if rows:
        raise ValueError(
            f"vectors are finite, however: {len(rows)} of {len(x)} rows hold NaN or infinity, the first is row "
            f"{rows[0]}. Mend what made them, or leave these rows out."
        )
    return x


def finite_rows(columns: Sequence[Tensor]) -> Tensor:
    """[N] bool: the rows that are finite as float32 in all columns [N, …].

    >>> finite_rows([torch.tensor([[1.0], [torch.inf]]), torch.ones(2, 3)]).tolist()
    [True, False]
    """
    each = [x.float().isfinite().flatten(1).all(1) for x in columns]
    return torch.stack(each).all(0)
