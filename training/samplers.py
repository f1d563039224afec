"""Samplers: which rows one pass over the training part draws."""

from typing import Literal

import torch
from torch import Tensor

Sampler = Literal["class_balanced", "square_root", "instance"]


def class_shares(sampler: Sampler, counts: Tensor) -> Tensor:
    """Share [C] of each class in the rows drawn, from class counts [C]; float64, 0 for classes without rows.

    Kang et al., "Decoupling representation and classifier for long-tailed recognition", ICLR 2020, eq. 1: the share
    of a class of n rows is proportional to n^q, with q 1 for instance, 1/2 for square_root and 0 for class_balanced.

    >>> class_shares("square_root", torch.tensor([900, 90, 10])).numpy().round(4).tolist()
    [0.7034, 0.2224, 0.0741]
    """
    exponent = {"instance": 1.0, "square_root": 0.5, "class_balanced": 0.0}[sampler]
    raw = torch.where(counts > 0, counts.double().pow(exponent), 0.0)
    return raw / raw.sum()


def draw_rows(sampler: Sampler, labels: Tensor, generator: torch.Generator) -> Tensor:
    """Row numbers [N] of one pass over rows with labels [N], in random order.

    A class is drawn in shuffled cycles over its own rows, so its rows are seen equally often, give or take one. Class
    sizes are the shares times N, rounded at random to one of the two whole numbers beside it.
    """
    total = len(labels)
    if sampler == "instance":
        return torch.randperm(total, generator=generator)
    counts = torch.bincount(labels)
    sizes = _rounded(class_shares(sampler, counts) * total, generator)
    of_class = torch.split(labels.argsort(stable=True), counts.tolist())
    drawn = [_cycled(rows, size, generator) for rows, size in zip(of_class, sizes.tolist(), strict=True) if size > 0]
    return torch.cat(drawn)[torch.randperm(total, generator=generator)]


def _rounded(sizes: Tensor, generator: torch.Generator) -> Tensor:
    """Whole numbers with the sum of sizes [C], which is whole, whose expectation is sizes (systematic rounding)."""
    edges = sizes.cumsum(0)
    edges[-1] = edges[-1].round()
    start = torch.rand(1, generator=generator, dtype=torch.float64)
    return (edges + start).floor().diff(prepend=start.floor()).long()


def _cycled(rows: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """The first size entries of shuffled passes over rows."""
    cycles = -(-size // len(rows))
    return torch.cat([rows[torch.randperm(len(rows), generator=generator)] for _ in range(cycles)])[:size]
