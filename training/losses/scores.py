"""Scores, what a loss per sample sees, and the form of such a loss."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


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


class PointLoss(Protocol):
    """A loss per sample, written for one head, without class weights and without a mean."""

    def __call__(self, scores: Scores, targets: Tensor) -> Tensor:
        """Loss [N] of scores [N, C+] against targets [N, C+] whose rows sum to 1."""
        ...
