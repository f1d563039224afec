"""VACE: a temperature for each class, from how far its rows scatter."""

from collections.abc import Callable, Iterable
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.spec import SWEPT, Spec


class Vace(Spec):
    """Divide each class's logit by a temperature that grows with the scatter of the class (variance-adaptive CE).

    tau_c = clip(a + b s_c, lowest, highest), where s_c is the variance of a class's vectors in units, before they are
    standardised, averaged over the channels; it is never trained. Training, predictions and probabilities all read
    z / tau. In a head that ends in a free linear layer this is cross entropy with the weights w_c / tau_c: without
    weight decay it has the same optimum, and with an L2 penalty it is cross entropy whose penalty on row c is
    multiplied by tau_c^2. So it is a regulariser by class there, and a change of what can be reached only in heads of
    fixed length, such as cosine heads.
    """

    kind: Literal["vace"] = "vace"
    strength: float = Field(default=0.0, ge=0, le=10, json_schema_extra=SWEPT)
    """How much the scatter of a class raises its temperature (b of the formula); 0 leaves cross entropy."""
    slope: Literal["normalised", "plain"] = "normalised"
    """Whether scatter counts relative to its mean over the classes, or as it is for vectors in units."""
    base: float = Field(default=1.0, ge=0.01, le=100)
    """Temperature of a class without scatter, or where center is set of one with the mean scatter (a)."""
    lowest: float = Field(default=0.5, gt=0, le=1)
    """Least temperature that a class can have."""
    highest: float = Field(default=2.0, ge=1, le=100)
    """Largest temperature that a class can have."""
    center: bool = False
    """Subtract the mean scatter from each, so that the mean temperature is a and tight classes are below it."""
    scatter: Literal["input_exact", "input_ema", "penultimate_ema", "own_logit_ema", "frequency"] = "input_exact"
    """What scatters: cached vectors of a class (all, or by batch), classifier inputs, own logits; or class sizes."""
    rate: float = Field(default=0.1, gt=0, le=1)
    """Weight of each batch in a running scatter (the kinds with ema); 1 takes the batch alone."""
    shrinkage: float = Field(default=0.0, ge=0, le=10_000)
    """Rows that the mean scatter counts as in that of each class, which steadies classes of few rows."""
    acts_on: Literal["logits", "decay"] = "logits"
    """What temperatures change: the logits, or as a control nothing but the weight decay of each class's row."""
    decay_power: float = Field(default=2.0, ge=0, le=4)
    """Power of the temperature by which decay is multiplied: 2 equals VACE for SGD's decay, 1 roughly for AdamW's."""

    @property
    def is_fixed(self) -> bool:
        """Whether temperatures follow from the training rows alone and stay the same."""
        return self.scatter in ("input_exact", "frequency")

    def temperatures(self, scatter: Tensor, counts: Tensor) -> Tensor:
        """Temperatures [C+] of classes with this scatter [C+], NaN where it is not known, and training rows [C+].

        A class of unknown scatter has the mean of the others; where none is known, every temperature is a.
        """
        known, one = scatter.isfinite(), torch.ones((), dtype=scatter.dtype, device=scatter.device)
        mean = torch.where(known, scatter, 0.0).sum() / known.sum().clamp(min=1)
        filled = torch.where(known, scatter, mean)
        if self.shrinkage > 0:
            rows = counts.to(scatter.dtype)
            filled = (rows * filled + self.shrinkage * mean) / (rows + self.shrinkage)
        above = filled - mean if self.center else filled
        unit = torch.where(mean > 0, mean, one) if self.slope == "normalised" else one
        return (self.base + self.strength * above / unit).clamp(self.lowest, self.highest)

    def moved(self, scatter: Tensor, batch: Tensor, counts: Tensor) -> Tensor:
        """The running scatter [C+] after a batch with its own [C+], from so many rows of each class [C+].

        One row has no variance: a class with fewer than two in the batch keeps what it had. The first batch of a class
        replaces the unknown.

        >>> Vace(rate=0.2).moved(torch.ones(3), torch.tensor([2.0, 9.0, 0.5]), torch.tensor([5, 1, 2]))
        tensor([1.2000, 1.0000, 0.9000])
        """
        later = torch.where(scatter.isfinite(), scatter + self.rate * (batch - scatter), batch)
        return torch.where(counts >= 2, later, scatter)


def scatter_of(pieces: Callable[[], Iterable[Tensor]], labels: Tensor, classes: int) -> Tensor:
    """Scatter [C] float64 of the classes of rows that come in pieces [n, D], twice, with labels [N] in their order.

    The variance (ddof 1) of the rows of a class, averaged over the channels; NaN for classes of fewer than two rows.

    >>> x = torch.tensor([[1.0, 2], [3, 2], [0, 0], [0, 4], [2, 2], [5, 5]])
    >>> scatter_of(lambda: [x[:4], x[4:]], torch.tensor([0, 0, 1, 1, 1, 2]), 3)
    tensor([1.0000, 2.6667,    nan], dtype=torch.float64)
    """
    counts = torch.bincount(labels, minlength=classes).double()
    means, start = None, 0
    for piece in pieces():
        rows = piece.flatten(1).double()
        means = rows.new_zeros(classes, rows.shape[1]) if means is None else means
        means.index_add_(0, labels[start : start + len(rows)], rows)
        start += len(rows)
    squares, start = torch.zeros_like(counts), 0
    if means is None:
        return squares / 0
    means /= counts.clamp(min=1)[:, None]
    for piece in pieces():
        rows = piece.flatten(1).double()
        own = labels[start : start + len(rows)]
        squares.index_add_(0, own, (rows - means[own]).square().mean(1))
        start += len(rows)
    return torch.where(counts >= 2, squares / (counts - 1).clamp(min=1), torch.nan)


def batch_scatter(x: Tensor, own: Tensor, classes: int, index: Tensor) -> tuple[Tensor, Tensor]:
    """Scatter [C+] (ddof 1) of the classes of a batch x [B, H] with places own [B], and their rows [C+].

    A row that a sampler drew more than once, by its number in index [B], counts once: copies of it have no variance.
    A class of fewer than two rows has a number that means nothing.
    """
    of_class = own == torch.arange(classes, device=own.device)[:, None]
    member = (of_class & _is_first(index)).to(x.dtype)
    counts = member.sum(1)
    means = (member @ x) / counts.clamp(min=1)[:, None]
    squares = (x - means[own]).square().mean(1)
    return (member @ squares) / (counts - 1).clamp(min=1), counts


def _is_first(index: Tensor) -> Tensor:
    """Which of the numbers [B] are the first of their kind.

    >>> _is_first(torch.tensor([5, 3, 5, 5]))
    tensor([ True,  True, False, False])
    """
    found, order = index.sort(stable=True)
    is_new = torch.cat([torch.ones_like(found[:1], dtype=torch.bool), found[1:] != found[:-1]])
    return torch.empty_like(is_new).scatter(0, order, is_new)
