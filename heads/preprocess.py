"""Standardisation: what happens to a vector before the body sees it.

Every vector is divided by one number for its column first, its unit, so that learning rates, penalties, doses and norms
mean the same whatever the scale of the vectors is. It is a part of the head, which maps vectors as they are cached.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from frostbench.heads.spec import Spec

ROWS_AT_ONCE = 4096
"""Rows whose statistics are taken at a time, in float64; the same wherever the rows are, so that low bits are too."""
LENGTH, MOST = 16.0, 2.0
"""Root mean square length of centred training vectors in units, and the most for one coordinate.

So below 64 dimensions vectors are shorter.

Of 384 to 1024 coordinates each then varies by .8 to .5. A fixed length suits the default learning rate better than a
fixed deviation does, for of few coordinates each has to say more; but of very few, first weights would be sure already.
"""
NOTHING = 1e-6
"""Share of its unit, or of the whole length, up to which a deviation is rounding."""


class Standardise(Spec):
    """Divide a vector by its unit, or subtract the mean of the training rows and divide by their deviation per channel.

    The unit of a column is one number, which changes no direction: divided by it, centred vectors of the training rows
    have the root mean square length 16, and twice the root of the dimension below 64; n columns share it, with that
    length over the root of n each. Augmentation, losses, penalties and closed forms read vectors in units, so the scale
    of the cached ones decides nothing.
    """

    kind: Literal["standardise"] = "standardise"
    center: bool = Field(default=False, title="Centre each channel")
    """Subtract each channel's mean over the training rows."""
    std: bool = Field(default=False, title="Scale each channel to unit variance")
    """Divide each channel by its standard deviation over the training rows (ddof 0), in place of the column's unit."""

    def build(self, x: Tensor, widths: Sequence[int] = ()) -> "Affine":
        """The fitted transform of training features x [N, D] or [N, T, D], with statistics taken in float64.

        A channel whose standard deviation is at most a millionth of the unit is divided by the unit in its place:
        centred, it is all but 0.

        >>> x = torch.tensor([[1.0, 10], [3, 10], [5, 10]])
        >>> Standardise(center=True, std=True).build(x)(x)
        tensor([[-1.2247,  0.0000],
                [ 0.0000,  0.0000],
                [ 1.2247,  0.0000]])

        Args:
            x: the features.
            widths: of the columns that are joined in them, each of which has a unit of its own; none is one column.
        """
        return self.build_from(torch.split(x, ROWS_AT_ONCE), widths)

    def build_from(self, pieces: Iterable[Tensor], widths: Sequence[int] = ()) -> "Affine":
        """As `build`, for features that come in pieces [n, D] or [n, T, D] of one type, one or more.

        The same rows in pieces of `ROWS_AT_ONCE` give the same bits.
        """
        mean, spread, dtype = moments(pieces)
        unit = units_of(mean, spread, widths)
        scale = torch.where(spread > NOTHING * unit, spread, unit) if self.std else unit
        dtype = torch.float64 if dtype == torch.float64 else torch.float32
        center = mean if self.center else torch.zeros_like(mean)
        return Affine(center.to(dtype), scale.to(dtype), unit.to(dtype))


def length_in_units(dim: int) -> float:
    """Root mean square length of centred training vectors of a dimension, in units.

    >>> length_in_units(768), length_in_units(16)
    (16.0, 8.0)
    """
    return min(LENGTH, MOST * math.sqrt(dim))


def units_of(mean: Tensor, spread: Tensor, widths: Sequence[int] = ()) -> Tensor:
    """The unit [D] of each channel from means and deviations [D]: one number for all channels of a column.

    Divided by it, centred vectors of a column have the root mean square length `length_in_units` over the root of the
    number of columns. Where rows are all alike it is their own length that counts, and for zeros alone the unit is 1.

    >>> units_of(torch.zeros(4), torch.tensor([3.0, 4.0, 0.3, 0.4]), [2, 2]) * 4 / 2**0.5
    tensor([5.0000, 5.0000, 0.5000, 0.5000])
    """
    each, wanted = list(widths) or [len(mean)], length_in_units(len(mean))
    found = []
    for own_mean, own_spread in zip(torch.split(mean, each), torch.split(spread, each), strict=True):
        around, whole = own_spread.norm(), torch.hypot(own_mean, own_spread).norm()
        length = torch.where(around > NOTHING * whole, around, whole)
        unit = torch.where(length > 0, length * len(each) ** 0.5 / wanted, 1.0)
        found.append(unit.expand(len(own_mean)))
    return torch.cat(found)


def moments(pieces: Iterable[Tensor]) -> tuple[Tensor, Tensor, torch.dtype]:
    """Mean and standard deviation [D] (ddof 0) of all rows of pieces [n, D] or [n, T, D], in float64; and their type.

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

    Training also knows the unit of each channel, which is no part of a bundle: it takes preprocessed vectors back to
    those that were divided by their unit alone.

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
        """Mean and scale [D] of vectors that were divided by their units: x * scale + mean are these."""
        return self.mean / self.unit, self.scale / self.unit

    def forward(self, x: Tensor) -> Tensor:
        """Standardise x [N, D]; computes in the dtype of the statistics."""
        return (x.to(self.mean.dtype) - self.mean) / self.scale

    def apply_(self, x: Tensor) -> Tensor:
        """As `forward`, in place of x [N, D], which has the dtype of the statistics."""
        return x.sub_(self.mean).div_(self.scale)
