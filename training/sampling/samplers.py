"""Samplers: the training rows that one pass draws."""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.spec import Spec, Tier

Sampler = Literal["class_balanced", "square_root", "instance", "progressive"]


def class_shares(sampler: Sampler, counts: Tensor, progress: float | None = None) -> Tensor:
    """Return the share [C] of each class in the rows drawn, for counts [C]; float64, 0 for classes without rows.

    Kang et al., "Decoupling representation and classifier for long-tailed recognition", ICLR 2020, eq. 1 and 2: the
    share of a class of n rows is proportional to n^q, with q 1 for instance, 1/2 for square_root and 0 for
    class_balanced; progressive goes from instance at a progress of 0 to class_balanced at 1.

    Raises:
        ValueError: no progress was given for the progressive sampler.

    >>> class_shares("square_root", torch.tensor([900, 90, 10])).numpy().round(4).tolist()
    [0.7034, 0.2224, 0.0741]
    >>> class_shares("progressive", torch.tensor([900, 90, 10]), 0.5).numpy().round(4).tolist()
    [0.6167, 0.2117, 0.1717]
    """
    if sampler == "progressive":
        if progress is None:
            raise ValueError("The progressive sampler needs the training progress, got None. Pass `progress`.")
        return (1 - progress) * class_shares("instance", counts) + progress * class_shares("class_balanced", counts)
    exponent = {"instance": 1.0, "square_root": 0.5, "class_balanced": 0.0}[sampler]
    raw = torch.where(counts > 0, counts.double().pow(exponent), 0.0)
    return raw / raw.sum()


def draw_rows(sampler: Sampler, labels: Tensor, generator: torch.Generator, progress: float | None = None) -> Tensor:
    """Draw the row indices [N] of one pass over rows with labels [N], in random order.

    Each class gets N times the share that the sampler gives it at this progress, randomly rounded up or down. It is
    drawn in shuffled cycles over its own rows, so its rows are seen equally often, give or take one.
    """
    total = len(labels)
    if sampler == "instance":
        return torch.randperm(total, generator=generator)
    counts = torch.bincount(labels)
    sizes = _rounded(class_shares(sampler, counts, progress) * total, generator)
    drawn = [
        _cycled(rows, size, generator)
        for rows, size in zip(_rows_by_class(labels, counts), sizes.tolist(), strict=True)
        if size > 0
    ]
    return torch.cat(drawn)[torch.randperm(total, generator=generator)]


class ClassBatches(Spec):
    """Batches of P classes with K distinct rows each, so that every row meets others of its class.

    Hermans et al., "In defense of the triplet loss for person re-identification", arXiv 1703.07737, 2017 (PK batches).
    Classes come in shuffled cycles, and so do the rows of each. A class of fewer than K rows gives all its rows: a row
    that is in a batch twice would be its own positive.
    """

    tier: ClassVar[Tier] = "experimental"
    kind: Literal["pxk"] = "pxk"
    classes: int = Field(default=32, ge=1, le=4096, title="Classes per batch P")
    """Classes in a batch (P), or all classes with rows if there are fewer."""
    rows: int = Field(default=4, ge=1, le=4096, title="Rows per class in a batch K")
    """Rows of each class in a batch (K), or all its rows if there are fewer."""

    def shares(self, counts: Tensor) -> Tensor:
        """Return the share [C] of each class in the rows drawn, for counts [C]; float64, 0 for classes without rows."""
        each = counts.clamp(max=self.rows).double()
        return each / each.sum()

    def batches(self, labels: Tensor, generator: torch.Generator) -> list[Tensor]:
        """Draw the batches of one pass, at least N / (P K) of them, as indices of rows with labels [N]."""
        of_class = [_Cycle(rows, generator) for rows in _rows_by_class(labels, torch.bincount(labels)) if len(rows) > 0]
        classes = min(self.classes, len(of_class))
        order = _Cycle(torch.arange(len(of_class)), generator)
        return [
            torch.tensor([row for label in order.take(classes) for row in of_class[label].take(self.rows)])
            for _ in range(-(-len(labels) // (classes * self.rows)))
        ]


class _Cycle:
    """Endless shuffled passes over numbers, taken in groups without repeats."""

    def __init__(self, numbers: Tensor, generator: torch.Generator) -> None:
        self._numbers = numbers
        self._generator = generator
        self._left: list[int] = []

    def take(self, size: int) -> list[int]:
        """Return the next `size` distinct numbers, or all if there are fewer.

        The rest of a pass comes first. A new pass then supplies the numbers that are missing and keeps its others.
        """
        taken = self._left[:size]
        self._left = self._left[size:]
        if len(taken) < size:
            held = set(taken)
            order = self._numbers[torch.randperm(len(self._numbers), generator=self._generator)].tolist()
            added = [number for number in order if number not in held][: size - len(taken)]
            self._left = [number for number in order if number not in set(added)]
            taken = taken + added
        return taken


def _rows_by_class(labels: Tensor, counts: Tensor) -> tuple[Tensor, ...]:
    """Return the row indices of each class, from labels [N] and counts [C]."""
    return torch.split(labels.argsort(stable=True), counts.tolist())


def _rounded(sizes: Tensor, generator: torch.Generator) -> Tensor:
    """Round sizes [C] whose sum is an integer, keeping the sum and each expectation (systematic rounding)."""
    edges = sizes.cumsum(0)
    edges[-1] = edges[-1].round()
    start = torch.rand(1, generator=generator, dtype=torch.float64)
    return (edges + start).floor().diff(prepend=start.floor()).long()


def _cycled(rows: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Return the first `size` entries of shuffled passes over rows."""
    cycles = -(-size // len(rows))
    return torch.cat([rows[torch.randperm(len(rows), generator=generator)] for _ in range(cycles)])[:size]
