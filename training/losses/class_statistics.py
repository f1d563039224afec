"""Class counts, priors and weights of the training rows, for losses and post-hoc layers."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True)
class ClassStatistics:
    """Counts, priors and loss weights of the classes; C+ is the number of classes with training rows.

    Attributes:
        counts: [C] int64 training rows per class.
        present: [C+] int64 indices of the classes with rows.
        position: [C] int64 index of each class within present, -1 if it has no rows.
        drawn: [C+] float64 class shares of the drawn rows, which a sampler may change.
        weight: [C+] float64 loss weights.
        log_prior_raw: [C+] float64 log class shares of the training rows, synthetic rows included.
        log_prior_effective: [C+] float64 log of the prior that the loss sees: drawn shares times weights, normalised.
        log_prior_given: [C+] float64 log of the user's prior for logit adjustment; None if none is given.
    """

    counts: Tensor
    present: Tensor
    position: Tensor
    drawn: Tensor
    weight: Tensor
    log_prior_raw: Tensor
    log_prior_effective: Tensor
    log_prior_given: Tensor | None = None

    @property
    def has_all(self) -> bool:
        """Whether every class has training rows."""
        return len(self.present) == len(self.counts)

    def log_prior(self, name: Literal["effective", "raw", "given"]) -> Tensor:
        """Return the log [C+] of the prior with this name.

        Raises:
            ValueError: the given prior is requested, but there is none.
        """
        log_prior: Tensor | None = getattr(self, f"log_prior_{name}")
        if log_prior is None:
            raise ValueError("prior=given needs a given prior, but these statistics have none. Pass log_prior_given.")
        return log_prior

    def over_all(self, factors: Tensor) -> Tensor:
        """Spread factors [C+] of the classes with rows over all classes [C], with 1 for the others."""
        if self.has_all:
            return factors
        return factors.new_ones(len(self.counts)).scatter(0, self.present, factors)

    def weighted(self, weight: Tensor) -> "ClassStatistics":
        """Return the statistics with other loss weights [C+]."""
        effective = self.drawn * weight
        return replace(self, weight=weight, log_prior_effective=(effective / effective.sum()).log())

    def under_sampler(self, shares: Tensor) -> "ClassStatistics":
        """Return the statistics under a sampler that draws classes with shares [C]."""
        return replace(self, drawn=shares.to(self.drawn.device)[self.present]).weighted(self.weight)

    def unsampled(self) -> "ClassStatistics":
        """Return the statistics under instance sampling."""
        return replace(self, drawn=self.log_prior_raw.exp()).weighted(self.weight)

    def unweighted(self) -> "ClassStatistics":
        """Return the statistics with equal class weights."""
        return self.weighted(torch.ones_like(self.weight))


def of_present(logits: Tensor, statistics: ClassStatistics) -> Tensor:
    """Return the columns [N, C+] of logits [N, C] whose classes have training rows."""
    return logits if statistics.has_all else logits.index_select(-1, statistics.present)


def class_statistics_of(
    labels: Tensor, classes: int, class_weight: Callable[[Tensor], Tensor], groups: Tensor | None = None
) -> ClassStatistics:
    """Compute the statistics of labels [N] under a class-weight rule (counts [C] -> weights [C]).

    Args:
        labels: class indices [N].
        classes: number of classes.
        class_weight: class-weight rule.
        groups: group [N] of each row, if the rule counts groups instead of rows.

    Raises:
        ValueError: there are no labels, or a label lies outside 0..classes-1.
    """
    if len(labels) == 0:
        raise ValueError("training needs at least one row, but the training part is empty. Check the split.")
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(
            f"labels must lie in 0..C-1 for the {classes} classes of this table, got "
            f"{int(labels.min())}..{int(labels.max())}. Check whether classes were removed after embedding."
        )
    counts = torch.bincount(labels, minlength=classes)
    present = counts.nonzero().squeeze(1)
    position = torch.full_like(counts, -1)
    position[present] = torch.arange(len(present), device=labels.device)
    counted = counts if groups is None else groups_per_class(labels, groups, classes)
    # The rule runs on the CPU wherever the rows are, because it sees only one number per class.
    weight = class_weight(counted.cpu()).to(counts.device)[present]
    share = counts[present].double() / len(labels)
    return ClassStatistics(counts, present, position, share, weight, share.log(), share.log()).weighted(weight)


def groups_per_class(labels: Tensor, groups: Tensor, classes: int) -> Tensor:
    """Count the distinct groups [C] among the rows of each class, for labels [N] and groups [N].

    >>> groups_per_class(torch.tensor([0, 0, 0, 1]), torch.tensor([5, 5, 7, 7]), 3)
    tensor([2, 1, 0])
    """
    pairs = torch.unique(torch.stack([labels, groups], 1), dim=0)
    return torch.bincount(pairs[:, 0], minlength=classes)
