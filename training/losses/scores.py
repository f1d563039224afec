"""Scores and targets, what a loss per sample sees, and the form of such a loss."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor
from torch.nn.functional import one_hot


@dataclass(frozen=True)
class Scores:
    """Every stage of the logits of the classes that have training rows; each [N, C+].

    Attributes:
        raw: what the head predicts.
        adjusted: the same with what training adds to it, such as a margin or the class prior.
        log_p: log-softmax of adjusted.
    """

    raw: Tensor
    adjusted: Tensor
    log_p: Tensor


@dataclass(frozen=True)
class Targets:
    """The wanted probabilities [N, C+] of samples with a hard label each, of which a share may be moved.

    They are (1 - moved) for the label, and moved times spread over all classes. Kept in this form, their mean of some
    values is one gather, where a product with [N, C+] would take several passes over it.

    Attributes:
        own: [N] place of each label.
        moved: the share; the number 0 where labels are hard.
        spread: [C+] where it goes, with sum 1; None is evenly.
    """

    own: Tensor
    moved: float | Tensor = 0.0
    spread: Tensor | None = None

    def mean(self, values: Tensor) -> Tensor:
        """Mean [N] of values [N, C+] under the targets."""
        own = values.gather(-1, self.own[:, None]).squeeze(-1)
        if self.is_hard:
            return own
        everywhere = values.mean(-1) if self.spread is None else values @ self.spread
        return own + self.moved * (everywhere - own)

    def dense(self, like: Tensor) -> Tensor:
        """The targets as [N, C+], in the dtype of scores like [N, C+].

        >>> import torch
        >>> Targets(torch.tensor([1]), 0.5).dense(torch.zeros(1, 2))
        tensor([[0.2500, 0.7500]])
        """
        hard = one_hot(self.own, like.shape[-1]).to(like.dtype)
        if self.is_hard:
            return hard
        spread = like.new_full(like.shape[-1:], 1 / like.shape[-1]) if self.spread is None else self.spread
        return hard + self.moved * (spread - hard)

    @property
    def is_hard(self) -> bool:
        """Whether labels have all of the target; a number that is swept is never 0."""
        return not isinstance(self.moved, Tensor) and self.moved == 0


@dataclass(frozen=True)
class Branch:
    """A hard label of every sample and its share of that sample; a mixed row has two branches, any other row one.

    Attributes:
        labels: [N] class indices.
        share: [N]; those of all branches sum to 1.
    """

    labels: Tensor
    share: Tensor


class PointLoss(Protocol):
    """A loss per sample, written for one head, without class weights and without a mean."""

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Loss [N] of scores [N, C+] against targets."""
        ...
