"""Bodies: the layers between the standardised vector and the classifier."""

from itertools import pairwise
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from frostbench.heads.bodies.attention_pool import AttentionPool
from frostbench.heads.bodies.dense import Dense, linear_layer
from frostbench.heads.spec import Spec

Dropped = tuple[Tensor, ...]
"""Factors on each block's output for one step of dropout; empty without dropout."""
Width = Annotated[int, Field(ge=1, le=16384)]


class Identity(Spec):
    """No body: the classifier reads the standardised vector."""

    kind: Literal["identity"] = "identity"

    def build(self, dim: int, generator: torch.Generator) -> "Pass":
        """Build a body that returns its input of width dim."""
        return Pass(dim)


class Mlp(Spec):
    """Fully connected blocks of Linear, LayerNorm, GELU and dropout.

    Hendrycks and Gimpel, "Gaussian error linear units", 2016; Ba et al., "Layer normalization", 2016.
    """

    kind: Literal["mlp"] = "mlp"
    hidden: Annotated[
        tuple[Width, ...], Field(min_length=1, max_length=8, title="MLP: widths of the hidden layers")
    ] = (768, 384)
    """Widths of the hidden layers, first to last."""
    block_order: Literal["ln_gelu", "gelu_ln"] = Field(default="ln_gelu", title="MLP: order of LayerNorm and GELU")
    """Whether LayerNorm comes before or after the GELU of each block."""
    dropout: float = Field(default=0.2, ge=0, lt=1, title="MLP: dropout rate")
    """Share of hidden activations that are set to zero in each training step."""

    def build(self, dim: int, generator: torch.Generator) -> "Blocks":
        """Build the blocks for input width dim, initialised from generator."""
        widths = (dim, *self.hidden)
        linears = [linear_layer(a, b, generator) for a, b in pairwise(widths)]
        return Blocks(linears, self.block_order, self.dropout)


class Pass(nn.Module):
    """The identity body.

    Shapes: x [N, D] -> [N, D]
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.depth = 0

    def draw(self, rows: int, generator: torch.Generator, dtype: torch.dtype) -> Dropped:
        """Return no dropout factors."""
        return ()

    def forward(self, x: Tensor, dropped: Dropped = (), start: int = 0, end: int | None = None) -> Tensor:
        """Return x."""
        return x


class Blocks(nn.Module):
    """The blocks of an MLP body.

    Shapes: x [N, D] -> [N, hidden[-1]]
    """

    def __init__(self, linears: list[Dense], block_order: str, dropout: float) -> None:
        super().__init__()
        self.linears = nn.ModuleList(linears)
        self.norms = nn.ModuleList(nn.LayerNorm(layer.out_features) for layer in linears)
        self.norm_first = block_order == "ln_gelu"
        self.dropout = dropout
        self.width = linears[-1].out_features
        self.depth = len(linears)

    def draw(self, rows: int, generator: torch.Generator, dtype: torch.dtype) -> Dropped:
        """Draw the dropout factors [rows, H] of each block for one step: 0, or 1 / (1 - dropout)."""
        if self.dropout == 0:
            return ()
        kept = 1 - self.dropout
        shapes = [(rows, norm.normalized_shape[0]) for norm in self.norms if isinstance(norm, nn.LayerNorm)]
        blanks = [torch.empty(shape, device=generator.device, dtype=dtype) for shape in shapes]
        return tuple(blank.bernoulli_(kept, generator=generator).div_(kept) for blank in blanks)

    def forward(self, x: Tensor, dropped: Dropped = (), start: int = 0, end: int | None = None) -> Tensor:
        """Run blocks start to end - 1; dropped holds the factors from `draw` and is empty outside training."""
        for block in range(start, self.depth if end is None else end):
            x, norm = self.linears[block](x), self.norms[block]
            x = nn.functional.gelu(norm(x)) if self.norm_first else norm(nn.functional.gelu(x))
            x = x * dropped[block] if dropped else x
        return x


BodySpec = Annotated[Identity | Mlp | AttentionPool, Field(discriminator="kind")]
