"""Facts of the training rows that losses and post-hoc layers need."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Facts:
    """Counts and priors of the training rows; C+ is the number of classes that have training rows.

    Attributes:
        counts: [C] int64 training rows per class.
        present: [C+] int64 indices of the classes with rows.
        position: [C] int64 place of a class within present, -1 where it is absent.
        weight: [C+] float64 loss weights.
        log_prior_raw: [C+] float64 log of the class shares.
        log_prior_effective: [C+] float64 log of the prior that the loss sees: shares times weights, normalised.
    """

    counts: Tensor
    present: Tensor
    position: Tensor
    weight: Tensor
    log_prior_raw: Tensor
    log_prior_effective: Tensor


def facts_of(labels: Tensor, classes: int, class_weight: Callable[[Tensor], Tensor]) -> Facts:
    """The facts of labels [N] under a class-weight rule (counts [C] -> weights [C]).

    Raises:
        ValueError: there are no labels, or one lies outside 0..classes-1.
    """
    if len(labels) == 0:
        raise ValueError("training needs at least one row, however: the training part is empty. Check the split.")
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(
            f"labels must lie in 0..C-1 for the {classes} classes of this table, however: they span "
            f"{int(labels.min())}..{int(labels.max())}. Were classes filtered after extraction?"
        )
    counts = torch.bincount(labels, minlength=classes)
    present = counts.nonzero().squeeze(1)
    position = torch.full_like(counts, -1)
    position[present] = torch.arange(len(present), device=labels.device)
    # The rules work on the CPU, wherever the rows are: there are only as many numbers as classes.
    weight = class_weight(counts.cpu()).to(counts.device)[present]
    share = counts[present].double() / len(labels)
    effective = share * weight / (share * weight).sum()
    return Facts(counts, present, position, weight, share.log(), effective.log())


def under_sampler(facts: Facts, shares: Tensor) -> Facts:
    """The facts of the same rows drawn with class shares [C] and weighted alike: the loss sees the shares as prior."""
    return replace(facts, weight=torch.ones_like(facts.weight), log_prior_effective=shares[facts.present].log())
