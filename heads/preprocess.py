"""Standardisation: what happens to a vector before the body sees it."""

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor, nn

from heads.spec import Spec

ROWS_AT_ONCE = 65_536
"""Rows whose copies in float64 are in memory while statistics are taken."""


class Standardise(Spec):
    """Subtract the mean and divide by the standard deviation of the training rows, per channel."""

    kind: Literal["standardise"] = "standardise"
    center: bool = False
    """Subtract each channel's mean over the training rows."""
    std: bool = False
    """Divide each channel by its standard deviation over the training rows (ddof 0)."""

    def build(self, x: Tensor) -> "Affine":
        """The fitted transform of training features x [N, D] or [N, T, D], with statistics taken in float64.

        A channel whose standard deviation is at most 1e-6 is not divided: centred, it is all but 0.

        >>> x = torch.tensor([[1.0, 10], [3, 10], [5, 10]])
        >>> Standardise(center=True, std=True).build(x)(x)
        tensor([[-1.2247,  0.0000],
                [ 0.0000,  0.0000],
                [ 1.2247,  0.0000]])
        """
        return self.build_from(torch.split(x, ROWS_AT_ONCE))

    def build_from(self, pieces: Iterable[Tensor]) -> "Affine":
        """As `build`, for features that come in pieces [n, D] or [n, T, D] of one type, one or more."""
        mean, spread, dtype = moments(pieces)
        spread = torch.where(spread > 1e-6, spread, torch.ones_like(spread))
        zeros, ones = torch.zeros_like(mean), torch.ones_like(mean)
        dtype = torch.float64 if dtype == torch.float64 else torch.float32
        return Affine((mean if self.center else zeros).to(dtype), (spread if self.std else ones).to(dtype))

    @property
    def is_neutral(self) -> bool:
        """Whether vectors stay as they are."""
        return not (self.center or self.std)


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

    Shapes: x [N, D], mean [D], scale [D] -> [N, D]
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)

    def forward(self, x: Tensor) -> Tensor:
        """Standardise x [N, D]; computes in the dtype of the statistics."""
        return (x.to(self.mean.dtype) - self.mean) / self.scale

    def apply_(self, x: Tensor) -> Tensor:
        """As `forward`, in place of x [N, D], which has the dtype of the statistics."""
        return x.sub_(self.mean).div_(self.scale)
