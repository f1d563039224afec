"""Scaling and standardisation of vectors before the body.

The vectors of a column are first divided by one number, the column's unit, so that learning rates, penalties, noise
levels and norms have the same meaning at any scale of the vectors. This scaling is part of the head, which reads
vectors as they are cached.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from frostbench.heads.spec import Spec

ROWS_AT_ONCE = 4096
"""Rows per block for statistics in float64; constant, so that rows in memory and on disk give bit-identical results."""
LENGTH, MOST = 16.0, 2.0
"""Root mean square length of centred training vectors after rescaling; at most `MOST` times the root of the dimension.

The limit applies below 64 dimensions. With 384 to 1024, each coordinate has a standard deviation of 0.8 to 0.5. A fixed
length suits the default learning rate better than a fixed deviation, because each coordinate carries more information
if there are few; with very few, however, the initial weights would give confident predictions without the limit.
"""
NOTHING = 1e-6
"""Share of the unit, or of the uncentred length, below which a deviation counts as rounding error."""


class Standardise(Spec):
    """Divide a vector by its unit; optionally centre it and scale each channel to unit variance.

    The unit of a column is one number, so it does not change the directions of the column's vectors. Divided by their
    unit, centred training vectors have the root mean square length 16, or twice the square root of the dimension below
    64 dimensions. With n columns, each has that length divided by the square root of n. Augmentation, losses, penalties
    and closed-form heads read rescaled vectors, so the scale of the cached vectors has no influence.
    """

    kind: Literal["standardise"] = "standardise"
    center: bool = Field(default=False, title="Centre each channel")
    """Whether each channel's mean over the training rows is subtracted."""
    std: bool = Field(default=False, title="Scale each channel to unit variance")
    """Whether each channel is divided by its standard deviation over the training rows instead of the column's unit."""

    def build(self, x: Tensor, widths: Sequence[int] = ()) -> "Affine":
        """Fit the transform to training features x [N, D] or [N, T, D], with statistics in float64.

        With `std`, a channel whose standard deviation is at most a millionth of the unit is divided by the unit.

        >>> x = torch.tensor([[1.0, 10], [3, 10], [5, 10]])
        >>> Standardise(center=True, std=True).build(x)(x)
        tensor([[-1.2247,  0.0000],
                [ 0.0000,  0.0000],
                [ 1.2247,  0.0000]])

        Args:
            x: the features.
            widths: widths of the concatenated columns, each with its own unit; empty for a single column.
        """
        return self.build_from(torch.split(x, ROWS_AT_ONCE), widths)

    def build_from(self, pieces: Iterable[Tensor], widths: Sequence[int] = ()) -> "Affine":
        """Fit as `build` does, to features in one or more pieces [n, D] or [n, T, D] of one dtype.

        Pieces of `ROWS_AT_ONCE` rows give results bit-identical to those of `build`.
        """
        mean, spread, dtype = moments(pieces)
        unit = units_of(mean, spread, widths)
        scale = torch.where(spread > NOTHING * unit, spread, unit) if self.std else unit
        dtype = torch.float64 if dtype == torch.float64 else torch.float32
        center = mean if self.center else torch.zeros_like(mean)
        return Affine(center.to(dtype), scale.to(dtype), unit.to(dtype))


def length_in_units(dim: int) -> float:
    """Return the root mean square length, after rescaling, of centred training vectors with `dim` dimensions.

    >>> length_in_units(768), length_in_units(16)
    (16.0, 8.0)
    """
    return min(LENGTH, MOST * math.sqrt(dim))


def units_of(mean: Tensor, spread: Tensor, widths: Sequence[int] = ()) -> Tensor:
    """Return the unit [D] of each channel from means and deviations [D]; it is constant within a column.

    Divided by the unit, a column's centred vectors have the root mean square length `length_in_units` divided by the
    square root of the number of columns. If all rows are equal, the unit follows from their uncentred length; if all
    are 0, it is 1.

    >>> units_of(torch.zeros(4), torch.tensor([3.0, 4.0, 0.3, 0.4]), [2, 2]) * 4 / 2**0.5
    tensor([5.0000, 5.0000, 0.5000, 0.5000])
    """
    sizes, wanted = list(widths) or [len(mean)], length_in_units(len(mean))
    units = []
    for column_mean, column_spread in zip(torch.split(mean, sizes), torch.split(spread, sizes), strict=True):
        centred, full = column_spread.norm(), torch.hypot(column_mean, column_spread).norm()
        length = torch.where(centred > NOTHING * full, centred, full)
        unit = torch.where(length > 0, length * len(sizes) ** 0.5 / wanted, 1.0)
        units.append(unit.expand(len(column_mean)))
    return torch.cat(units)


def moments(pieces: Iterable[Tensor]) -> tuple[Tensor, Tensor, torch.dtype]:
    """Return the float64 mean and standard deviation [D] (ddof 0) of rows in pieces [n, D] or [n, T, D], and the dtype.

    Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.

    >>> [round(m.item(), 9) for m in moments([torch.tensor([[1.0]]), torch.tensor([[3.0], [5], [7]])])[:2]]
    [4.0, 2.236067977]
    """
    rows, dtype = 0, torch.float32
    mean = spread = torch.empty(0)
    for piece in pieces:
        exact, dtype = piece.reshape(-1, piece.shape[-1]).double(), piece.dtype
        own_mean, own_spread, own = exact.mean(0), exact.std(0, correction=0), len(exact)
        if rows == 0:
            mean, spread, rows = own_mean, own_spread, own
            continue
        share = own / (rows + own)
        between = (own_mean - mean).square() * share * (1 - share)
        spread = (spread.square() * (1 - share) + own_spread.square() * share + between).sqrt()
        mean, rows = mean + (own_mean - mean) * share, rows + own
    return mean, spread, dtype


class Affine(nn.Module):
    """(x - mean) / scale, per channel.

    During training, it also has the unit of each channel, to convert preprocessed vectors back to rescaled ones; a
    bundle does not contain the units.

    Shapes: x [N, D], mean [D], scale [D], unit [D] -> [N, D]
    """

    mean: Tensor
    scale: Tensor
    unit: Tensor

    def __init__(self, mean: Tensor, scale: Tensor, unit: Tensor | None = None) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)
        self.register_buffer("unit", torch.ones_like(scale) if unit is None else unit, persistent=False)

    @property
    def in_units(self) -> tuple[Tensor, Tensor]:
        """Mean and scale [D] that convert preprocessed x back to rescaled vectors: x * scale + mean."""
        return self.mean / self.unit, self.scale / self.unit

    def forward(self, x: Tensor) -> Tensor:
        """Standardise x [N, D], in the dtype of the statistics."""
        return (x.to(self.mean.dtype) - self.mean) / self.scale

    def apply_(self, x: Tensor) -> Tensor:
        """Standardise x [N, D] in place; x must have the dtype of the statistics."""
        return x.sub_(self.mean).div_(self.scale)
