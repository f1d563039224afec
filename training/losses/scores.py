"""Inputs of a loss per sample (scores, targets, mixed labels) and the protocol of such a loss."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor
from torch.nn.functional import one_hot


@dataclass(frozen=True)
class Scores:
    """The logits of the classes with training rows, as the head gives them and as the loss uses them, each [N, C+].

    Attributes:
        raw: logits of the head.
        adjusted: raw plus everything that training adds, such as a margin or the class prior.
        log_p: log-softmax of adjusted.
    """

    raw: Tensor
    adjusted: Tensor
    log_p: Tensor


@dataclass(frozen=True)
class Targets:
    """Target distributions [N, C+]: hard labels, of which a share may be moved to other classes.

    A target is (1 - moved) for the label, plus moved times spread over all classes. In this form the mean of some
    values under the targets is one gather, where a product with a dense [N, C+] array would take several passes.

    Attributes:
        label_index: [N] column of each label.
        moved: the moved share; the number 0 for hard labels.
        spread: [C+] distribution of the moved share, with sum 1; None means uniform.
    """

    label_index: Tensor
    moved: float | Tensor = 0.0
    spread: Tensor | None = None

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean [N] of values [N, C+] under the targets."""
        of_label = values.gather(-1, self.label_index[:, None]).squeeze(-1)
        if self.is_hard:
            return of_label
        of_spread = values.mean(-1) if self.spread is None else values @ self.spread
        return of_label + self.moved * (of_spread - of_label)

    def dense(self, like: Tensor) -> Tensor:
        """Return the targets as an array [N, C+], in the shape and dtype of `like`.

        >>> import torch
        >>> Targets(torch.tensor([1]), 0.5).dense(torch.zeros(1, 2))
        tensor([[0.2500, 0.7500]])
        """
        hard = one_hot(self.label_index, like.shape[-1]).to(like.dtype)
        if self.is_hard:
            return hard
        spread = like.new_full(like.shape[-1:], 1 / like.shape[-1]) if self.spread is None else self.spread
        return hard + self.moved * (spread - hard)

    @property
    def is_hard(self) -> bool:
        """Whether nothing is moved; a swept number is never 0."""
        return not isinstance(self.moved, Tensor) and self.moved == 0


@dataclass(frozen=True)
class Branch:
    """A hard label per sample and its share of that sample: mixed rows have two branches, all others one.

    Attributes:
        labels: [N] class indices.
        share: [N]; the shares of all branches sum to 1.
    """

    labels: Tensor
    share: Tensor


class PointLoss(Protocol):
    """A loss per sample of one head, before class weights and the mean over samples."""

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Return the loss [N] of scores [N, C+] against targets."""
        ...
