"""The linear layer, on its own and stacked with others that read the same rows."""

from typing import Any

import torch
from torch import Tensor, nn

WIDE_UP_TO = 128
"""Maximum number of outputs for which one wide product is faster; above it, rearranging the result costs more."""


class Dense(nn.Linear):
    """x W^T + b.

    Within `torch.func.vmap`, layers that share their input run as one wide matrix product if `wide` is set. Otherwise,
    vmap multiplies the rows by one layer after the other, which takes up to twice as long for few outputs.

    Shapes: x [..., D] -> [..., C]
    """

    wide = False

    def forward(self, input: Tensor) -> Tensor:
        """Return the layer's output for an input [..., D]."""
        if not self.wide or input.ndim != 2:
            return super().forward(input)
        output: Tensor = _Wide.apply(input, self.weight, self.bias)
        return output


class _Wide(torch.autograd.Function):
    """F.linear with a custom vmap rule."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return gradient @ weight, gradient.mT @ x, gradient.sum(-2)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, int]:
        """Batch over K heads: x [N, D] or [K, N, D], weight [K, C, D], bias [K, C] to [N, K, C] or [K, N, C]."""
        heads = info.batch_size
        weight, bias = (_leading(t, dim, heads) for t, dim in ((weight, in_dims[1]), (bias, in_dims[2])))
        if in_dims[0] is None and weight.shape[1] <= WIDE_UP_TO:
            flat = torch.addmm(bias.reshape(-1), x, weight.reshape(-1, x.shape[1]).T)
            return flat.view(len(x), heads, -1), 1
        return torch.baddbmm(bias[:, None], _leading(x, in_dims[0], heads), weight.mT), 0


def _leading(tensor: Tensor, dim: int | None, heads: int) -> Tensor:
    return tensor.expand(heads, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def linear_layer(width_in: int, width_out: int, generator: torch.Generator) -> Dense:
    """Build a layer with torch's default uniform initialisation, drawn from generator.

    torch's constructor draws from the global generator, which would make a run depend on what ran before it.
    """
    layer = zero_layer(width_in, width_out)
    bound = width_in**-0.5
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)
    return layer


def zero_layer(width_in: int, width_out: int) -> Dense:
    """Build a layer of zeros without drawing random numbers."""
    layer = Dense(width_in, width_out, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
    return layer
