"""Attention pooling: a learned query pools tokens into one vector."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from frostbench.heads.bodies.dense import linear_layer
from frostbench.heads.spec import Spec


class AttentionPool(Spec):
    """Multi-head attention with one learned query, from tokens [N, T, D] to one vector [N, D].

    Lee et al., "Set transformer", ICML 2019, section 3.2, with one seed vector. With the residual MLP it is the
    pooling head (MAP) of Zhai et al., "Scaling vision transformers", CVPR 2022, and of SigLIP.
    """

    kind: Literal["attention_pool"] = "attention_pool"
    heads: int = Field(default=8, ge=1, le=64, title="Attention pooling: number of heads")
    """Number of attention heads; it must divide the width of the tokens."""
    mlp_ratio: int = Field(default=0, ge=0, le=8, title="Attention pooling: MLP width ratio")
    """Width of the residual MLP after the attention, as a multiple of the token width; 0 omits the MLP."""

    def build(self, dim: int, generator: torch.Generator) -> "Pool":
        """Build the pool for tokens of width dim, initialised from generator.

        Raises:
            ValueError: heads does not divide the width.
        """
        if dim % self.heads:
            raise ValueError(
                f"heads must divide the token width {dim}, got {self.heads}. "
                f"Choose one of {[h for h in range(1, 65) if dim % h == 0]}."
            )
        return Pool(dim, self.heads, self.mlp_ratio, generator)


class Pool(nn.Module):
    """Attention of one learned query over the tokens, optionally followed by a residual MLP.

    This is nn.MultiheadAttention for the query q (already projected), computed in another order. The score of a token x
    in head h is q_h · (K_h x + b) = (K_hᵀ q_h) · x + a constant over tokens, which softmax ignores. So keys need no
    bias and are never computed: K_hᵀ q_h is one vector per head. The attention weights of a head sum to 1, so the value
    projection can act on the pooled token. Both projections then run once per image instead of once per token.

    Shapes: x [N, T, D] -> [N, D]
    """

    def __init__(self, width: int, heads: int, mlp_ratio: int, generator: torch.Generator) -> None:
        super().__init__()
        self.width = width
        self.depth = 0
        self.heads = heads
        self.query = nn.Parameter(torch.randn(width, generator=generator))
        self.key = nn.Parameter(linear_layer(width, width, generator).weight.detach())
        self.value = linear_layer(width, width, generator)
        self.out = linear_layer(width, width, generator)
        self.mlp = _mlp(width, mlp_ratio * width, generator) if mlp_ratio else None

    def draw(self, rows: int, generator: torch.Generator, dtype: torch.dtype) -> tuple[Tensor, ...]:
        """Return no dropout factors."""
        return ()

    def forward(self, x: Tensor, dropped: tuple[Tensor, ...] = (), start: int = 0, end: int | None = None) -> Tensor:
        """Pool the tokens x [N, T, D], or return them unchanged with end=0, as mixing rows at the input requires."""
        if end == 0:
            return x
        head_width = self.width // self.heads
        query = self.query.view(self.heads, head_width) * head_width**-0.5
        probes = torch.einsum("he,hed->hd", query, self.key.view(self.heads, head_width, self.width))
        attention = torch.einsum("ntd,hd->nht", x, probes).softmax(2)
        tokens = torch.einsum("nht,ntd->nhd", attention, x)
        values = torch.einsum("nhd,hed->nhe", tokens, self.value.weight.view(self.heads, head_width, self.width))
        pooled: Tensor = self.out(values.flatten(1) + self.value.bias)
        return pooled if self.mlp is None else pooled + self.mlp(pooled)


def _mlp(width: int, hidden: int, generator: torch.Generator) -> nn.Sequential:
    first, second = linear_layer(width, hidden, generator), linear_layer(hidden, width, generator)
    return nn.Sequential(nn.LayerNorm(width), first, nn.GELU(), second)
