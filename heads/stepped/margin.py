"""What the margin heads share: numbers as tensors, per-class margins, warm-up, and the own class's column.

Everything here runs in training steps that torch.func.vmap lifts to many heads at once. So a number is a float or a
0-d tensor (one of a stack's), there is no branch on a tensor, and nothing is written by index.
"""

import torch
from torch import Tensor

from frostbench.heads.classifier import Number


def number(value: Number, like: Tensor) -> Tensor:
    """The value as a 0-d tensor of like's dtype, on like's device."""
    return value.to(like) if isinstance(value, Tensor) else like.new_full((), value)


def class_margins(margin: Number, counts: Tensor, exponent: Number, like: Tensor) -> Tensor:
    """[C+] margin (n_min / n_j)^exponent in like's dtype for the training counts [C+] of the classes present.

    With the exponent 1/4 these are the margins of Cao et al., "Learning imbalanced datasets with label-distribution-
    aware margin loss", NeurIPS 2019, eq. 13: the rarest class gets all of the margin.

    >>> class_margins(0.5, torch.tensor([900, 90, 10]), 0.25, torch.zeros(1))
    tensor([0.1623, 0.2887, 0.5000])
    """
    share = counts.amin().to(like) / counts.to(like)
    return number(margin, like) * share ** number(exponent, like)


def warmed_up(progress: Number, warmup: Number, like: Tensor) -> Tensor:
    """The share of the margin in force: 0 at the start, rising linearly, 1 from progress = warmup on.

    >>> warmed_up(0.05, 0.2, torch.zeros(1)), warmed_up(0.0, 0.0, torch.zeros(1))
    (tensor(0.2500), tensor(1.))
    """
    done, until = number(progress, like), number(warmup, like)
    one = torch.ones_like(until)
    return torch.where(until > done, done / torch.where(until > 0, until, one), one)


def own_scores(logits: Tensor, own: Tensor) -> Tensor:
    """[N] each row's logit of its own class, for logits [N, C+] and own [N] int."""
    return torch.where(_is_own(logits, own), logits, torch.zeros_like(logits)).sum(1)


def with_own_changed(logits: Tensor, own: Tensor, change: Tensor) -> Tensor:
    """The logits [N, C+] with change [N] added to each row's own class; a change of 0 leaves every bit alone."""
    return torch.where(_is_own(logits, own), logits + change.unsqueeze(1), logits)


def _is_own(logits: Tensor, own: Tensor) -> Tensor:
    return own.unsqueeze(1) == torch.arange(logits.shape[1], device=logits.device)
