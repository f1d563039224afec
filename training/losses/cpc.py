"""CPC: calibration by pairwise constraints on classes."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import softplus

from frostbench.heads.spec import SWEPT, Tier
from frostbench.training.losses.method import LossMethod
from frostbench.training.losses.scores import Scores, Targets
from frostbench.training.rule import Rule

CLASSES_AT_ONCE = 16
"""Number of classes compared with all others at once, which avoids an [N, C, C] array."""


class Cpc(LossMethod):
    """Cross entropy plus logistic losses over pairs of classes.

    Cheng and Vasconcelos, "Calibrating deep neural networks by pairwise constraints", CVPR 2022. Discrimination
    separates the label from every other class: the mean of softplus(z_k - z_y) over k. Exclusion keeps the other
    classes close to each other: the sum of softplus(z_k - z_j) over j and k other than the label, divided by
    2 (C - 1) (C - 2); pairs of a class with itself add a constant, as in the public code. Discrimination uses the
    adjusted logits, as cross entropy does, and exclusion the plain ones. The loss needs at least three classes.
    """

    tier: ClassVar[Tier] = "experimental"
    neutral: ClassVar[Mapping[str, float]] = {"discrimination": 0, "exclusion": 0}
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "warn",
            lambda run: (
                isinstance(run.train.loss.point, Cpc)
                and run.train.loss.point.discrimination > 0
                and run.train.loss.smoothing.epsilon > 0
                and not run.is_fitted
            ),
            "cpc pushes the label away from every other class without limit, and label smoothing bounds that gap: set "
            "train.loss.smoothing.epsilon=0, or train.loss.point.discrimination=0",
        ),
    )
    kind: Literal["cpc"] = "cpc"
    discrimination: float = Field(
        default=0.1, ge=0, le=100, json_schema_extra=SWEPT, title="CPC: weight of discrimination"
    )
    """Coefficient of the losses over pairs of the label with another class."""
    exclusion: float = Field(default=1.0, ge=0, le=100, json_schema_extra=SWEPT, title="CPC: weight of exclusion")
    """Coefficient of the losses over pairs of two classes other than the label."""

    def check_classes(self, classes: int) -> None:
        """Check that there are at least three classes.

        Raises:
            ValueError: there are fewer.
        """
        if classes < 3:
            raise ValueError(
                f"cpc compares classes other than the label and needs at least three classes with training rows, got "
                f"{classes}. Use another train.loss.point.kind, or add a class."
            )

    def batch_numbers(self, batch: int, classes: int) -> int:
        """Return the number of class pairs per row that are held at once."""
        return CLASSES_AT_ONCE * classes

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Return the loss [N] of scores [N, C+] against targets; the pairs use only the label.

        Raises:
            ValueError: there are fewer than three classes.
        """
        self.check_classes(scores.raw.shape[-1])
        of_label = discrimination(scores.adjusted, targets.label_index)
        of_others = exclusion(scores.raw, targets.label_index)
        return -targets.mean(scores.log_p) + self.discrimination * of_label + self.exclusion * of_others


def discrimination(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean [N] of softplus(z_k - z_y) over all classes k except the label y, for logits [N, C]."""
    pairs = softplus(logits - logits.gather(-1, labels[:, None]))
    return (pairs * _others(logits, labels)).sum(-1) / (logits.shape[-1] - 1)


def exclusion(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the sum [N] of softplus(z_k - z_j) over j and k other than the label, divided by 2 (C - 1) (C - 2).

    Value and slope for logits [N, C] are computed in blocks of classes and outside the graph, which would otherwise
    hold every pair. The slope in z_k is the sum over j of sigmoid(z_k - z_j) - sigmoid(z_j - z_k) =
    tanh((z_k - z_j) / 2). Second derivatives are not available.
    """
    fixed, others, classes = logits.detach(), _others(logits, labels), logits.shape[-1]
    value, slope = torch.zeros_like(fixed), torch.zeros_like(fixed)
    for start in range(0, classes, CLASSES_AT_ONCE):
        block = slice(start, start + CLASSES_AT_ONCE)
        gap, counts = fixed[:, None, :] - fixed[:, block, None], others[:, None, block]
        value = value + (counts @ softplus(gap)).squeeze(1)
        slope = slope + (counts @ (gap / 2).tanh()).squeeze(1)
    total = (others * (value + slope * (logits - fixed))).sum(-1)
    return total / (2 * (classes - 1) * (classes - 2))


def _others(logits: Tensor, labels: Tensor) -> Tensor:
    """Return a mask [N, C] that is 0 for each row's label and 1 for the other classes."""
    return (labels[:, None] != torch.arange(logits.shape[-1], device=logits.device)).to(logits.dtype)
