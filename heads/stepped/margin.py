"""Shared parts of the margin heads: their base class, per-class margins, warm-up, and the true class's column.

The functions run in training steps of many heads at once under torch.func.vmap. So a number is a float or a 0-d tensor
(of one head in a stack), nothing branches on a tensor, and nothing is written by index.
"""

from typing import ClassVar

import torch
from torch import Tensor

from frostbench.heads.classifier import Number
from frostbench.heads.stepped.cosine import CosineClassifier


class MarginClassifier(CosineClassifier):
    """A cosine classifier that gives the true class a margin in training."""

    sets_margin: ClassVar[bool] = True

    @property
    def is_marginless(self) -> bool:
        """Whether its margin is 0."""
        return self.margin == 0


def number(value: Number, like: Tensor) -> Tensor:
    """Return the value as a 0-d tensor with the dtype and device of like."""
    return value.to(like) if isinstance(value, Tensor) else like.new_full((), value)


def class_margins(margin: Number, counts: Tensor, exponent: Number, like: Tensor) -> Tensor:
    """Return margin (n_min / n_j)^exponent [C+] in like's dtype, for the training counts [C+] of present classes.

    With exponent 1/4 these are the margins of Cao et al., "Learning imbalanced datasets with label-distribution-
    aware margin loss", NeurIPS 2019, eq. 13: the rarest class gets the full margin.

    >>> class_margins(0.5, torch.tensor([900, 90, 10]), 0.25, torch.zeros(1))
    tensor([0.1623, 0.2887, 0.5000])
    """
    share = counts.amin().to(like) / counts.to(like)
    return number(margin, like) * share ** number(exponent, like)


def warmed_up(progress: Number, warmup: Number, like: Tensor) -> Tensor:
    """Return the share of the margin that applies: 0 at first, rising linearly to 1 at progress = warmup.

    >>> warmed_up(0.05, 0.2, torch.zeros(1)), warmed_up(0.0, 0.0, torch.zeros(1))
    (tensor(0.2500), tensor(1.))
    """
    done, until = number(progress, like), number(warmup, like)
    one = torch.ones_like(until)
    return torch.where(until > done, done / torch.where(until > 0, until, one), one)


def own_scores(logits: Tensor, own: Tensor) -> Tensor:
    """Return each row's logit [N] for its class in own [N] int, from logits [N, C+]."""
    return torch.where(_is_own(logits, own), logits, torch.zeros_like(logits)).sum(1)


def with_own_changed(logits: Tensor, own: Tensor, change: Tensor) -> Tensor:
    """Return the logits [N, C+] with change [N] added to each row's class; a change of 0 keeps every bit."""
    return torch.where(_is_own(logits, own), logits + change.unsqueeze(1), logits)


def _is_own(logits: Tensor, own: Tensor) -> Tensor:
    return own.unsqueeze(1) == torch.arange(logits.shape[1], device=logits.device)
