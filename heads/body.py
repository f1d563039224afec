"""Bodies: what stands between the standardised vector and the classifier."""

from itertools import pairwise
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from heads.spec import Spec

Width = Annotated[int, Field(ge=1, le=16384)]


class Identity(Spec):
    """No body: the classifier reads the standardised vector."""

    kind: Literal["identity"] = "identity"

    def build(self, dim: int, generator: torch.Generator) -> "Pass":
        """A body that returns its input of width dim."""
        return Pass(dim)


class Mlp(Spec):
    """Fully connected blocks of Linear, LayerNorm, GELU and dropout.

    Hendrycks and Gimpel, "Gaussian error linear units", 2016; Ba et al., "Layer normalization", 2016.
    """

    kind: Literal["mlp"] = "mlp"
    hidden: Annotated[tuple[Width, ...], Field(min_length=1, max_length=8)] = (768, 384)
    """Widths of the hidden layers, first to last."""
    block_order: Literal["ln_gelu", "gelu_ln"] = "ln_gelu"
    """Whether LayerNorm comes before or after the GELU of each block."""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    """Share of hidden activations set to zero in each training step."""

    def build(self, dim: int, generator: torch.Generator) -> "Blocks":
        """The blocks for input width dim, initialised from generator."""
        widths = (dim, *self.hidden)
        linears = [linear_layer(a, b, generator) for a, b in pairwise(widths)]
        return Blocks(linears, self.block_order, self.dropout)


def linear_layer(width_in: int, width_out: int, generator: torch.Generator) -> nn.Linear:
    """An nn.Linear with torch's default uniform initialisation, drawn from generator.

    torch's own constructor draws from the global generator, which would tie a run to what ran before it.
    """
    layer = nn.Linear(width_in, width_out, device="meta").to_empty(device="cpu")
    bound = width_in**-0.5
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)
    return layer


class Pass(nn.Module):
    """The identity as a body.

    Shapes: x [N, D] -> [N, D]
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.depth = 0

    def forward(
        self, x: Tensor, generator: torch.Generator | None = None, start: int = 0, end: int | None = None
    ) -> Tensor:
        """Return x."""
        return x


class Blocks(nn.Module):
    """The blocks of an MLP body, or those from start to before end.

    Shapes: x [N, D] -> [N, hidden[-1]]
    """

    def __init__(self, linears: list[nn.Linear], block_order: str, dropout: float) -> None:
        super().__init__()
        self.linears = nn.ModuleList(linears)
        self.norms = nn.ModuleList(nn.LayerNorm(layer.out_features) for layer in linears)
        self.norm_first = block_order == "ln_gelu"
        self.dropout = dropout
        self.width = linears[-1].out_features
        self.depth = len(linears)

    def forward(
        self, x: Tensor, generator: torch.Generator | None = None, start: int = 0, end: int | None = None
    ) -> Tensor:
        """Run the blocks; dropout acts in training mode and draws from generator."""
        blocks = list(zip(self.linears, self.norms, strict=True))
        for linear, norm in blocks[start:end]:
            x = linear(x)
            x = nn.functional.gelu(norm(x)) if self.norm_first else norm(nn.functional.gelu(x))
            if self.training and self.dropout > 0:
                kept = torch.rand(x.shape, generator=generator, device=x.device) >= self.dropout
                x = x * kept / (1 - self.dropout)
        return x


BodySpec = Annotated[Identity | Mlp, Field(discriminator="kind")]
