"""ClassStatistics of the training rows that losses and post-hoc layers need."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True)
class ClassStatistics:
    """Counts and priors of the training rows; C+ is the number of classes that have training rows.

    Attributes:
        counts: [C] int64 training rows per class.
        present: [C+] int64 indices of the classes with rows.
        position: [C] int64 place of a class within present, -1 where it is absent.
        drawn: [C+] float64 shares of the classes in what is drawn: those of the rows, unless a sampler changes them.
        weight: [C+] float64 loss weights.
        log_prior_raw: [C+] float64 log of the class shares of the rows, with those that were made up.
        log_prior_effective: [C+] float64 log of the prior that the loss sees: drawn shares times weights, normalised.
        log_prior_given: [C+] float64 log of the prior that a person gave for logit adjustment; None where none did.
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
        """The log [C+] of the prior of that name.

        Raises:
            ValueError: it is given, and none was.
        """
        found = {"effective": self.log_prior_effective, "raw": self.log_prior_raw, "given": self.log_prior_given}[name]
        if found is None:
            raise ValueError(
                "a prior that is given must be there, however: the statistics hold none. Pass log_prior_given."
            )
        return found

    def over_all(self, factors: Tensor) -> Tensor:
        """Spread factors [C+] of the present classes over all classes [C], with 1 for the others."""
        if self.has_all:
            return factors
        return factors.new_ones(len(self.counts)).scatter(0, self.present, factors)

    def weighted(self, weight: Tensor) -> "ClassStatistics":
        """The statistics under other loss weights [C+]."""
        effective = self.drawn * weight
        return replace(self, weight=weight, log_prior_effective=(effective / effective.sum()).log())

    def under_sampler(self, shares: Tensor) -> "ClassStatistics":
        """The statistics where classes are drawn with shares [C]."""
        return replace(self, drawn=shares.to(self.drawn.device)[self.present]).weighted(self.weight)

    def unsampled(self) -> "ClassStatistics":
        """The statistics where rows are drawn as they are."""
        return replace(self, drawn=self.log_prior_raw.exp()).weighted(self.weight)

    def unweighted(self) -> "ClassStatistics":
        """The statistics where every class counts alike."""
        return self.weighted(torch.ones_like(self.weight))


def of_present(logits: Tensor, statistics: ClassStatistics) -> Tensor:
    """Return the columns [N, C+] of logits [N, C] whose classes have training rows."""
    return logits if statistics.has_all else logits.index_select(-1, statistics.present)


def class_statistics_of(
    labels: Tensor, classes: int, class_weight: Callable[[Tensor], Tensor], groups: Tensor | None = None
) -> ClassStatistics:
    """The statistics of labels [N] under a class-weight rule (counts [C] -> weights [C]).

    Args:
        labels: class indices [N].
        classes: number of classes.
        class_weight: the rule.
        groups: group [N] of each row, where the rule is to count groups in place of rows.

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
    counted = counts if groups is None else groups_per_class(labels, groups, classes)
    # The rules work on the CPU, wherever the rows are: there are only as many numbers as classes.
    weight = class_weight(counted.cpu()).to(counts.device)[present]
    share = counts[present].double() / len(labels)
    return ClassStatistics(counts, present, position, share, weight, share.log(), share.log()).weighted(weight)


def groups_per_class(labels: Tensor, groups: Tensor, classes: int) -> Tensor:
    """Number [C] of different groups among the rows of each class, from labels [N] and groups [N].

    >>> groups_per_class(torch.tensor([0, 0, 0, 1]), torch.tensor([5, 5, 7, 7]), 3)
    tensor([2, 1, 0])
    """
    pairs = torch.unique(torch.stack([labels, groups], 1), dim=0)
    return torch.bincount(pairs[:, 0], minlength=classes)
