"""A linear layer whose numbers are already known."""

from dataclasses import dataclass

import torch
from torch import Tensor

from frostbench.heads.bodies.dense import Dense, zero_layer


@dataclass(frozen=True)
class Solution:
    """What the solver found, and how good it is.

    Attributes:
        weight: [C, D] float64.
        bias: [C] float64.
        gradient_norm: largest absolute entry of the objective's gradient at (weight, bias), before these are
            rounded to the head's float32.
        iterations: L-BFGS steps taken.
        is_converged: whether the gradient norm is within the tolerance that was asked for.
    """

    weight: Tensor
    bias: Tensor
    gradient_norm: float
    iterations: int
    is_converged: bool


def solved_layer(weight: Tensor, bias: Tensor) -> Dense:
    """The float32 layer with weight [C, D] and bias [C], on their device."""
    layer = zero_layer(weight.shape[1], weight.shape[0]).to(weight.device)
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    return layer
