"""Standardisation: what happens to a vector before the body sees it."""

from typing import Literal

import torch
from torch import Tensor, nn

from heads.spec import Spec


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
        exact = x.reshape(-1, x.shape[-1]).double()
        mean = exact.mean(0)
        spread = exact.std(0, correction=0)
        spread = torch.where(spread > 1e-6, spread, torch.ones_like(spread))
        zeros, ones = torch.zeros_like(mean), torch.ones_like(mean)
        dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
        return Affine((mean if self.center else zeros).to(dtype), (spread if self.std else ones).to(dtype))


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
