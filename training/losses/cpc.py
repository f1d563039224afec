"""CPC: calibration by pairs of classes."""

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
"""Classes that are compared with all others at a time, so that memory is no [N, C, C]."""


class Cpc(LossMethod):
    """Cross entropy, and logistic losses of all pairs of classes.

    Cheng and Vasconcelos, "Calibrating deep neural networks by pairwise constraints", CVPR 2022. The label is told
    from each other class (discrimination, the mean of softplus(z_k - z_y) over k), and no other class is told from
    another (exclusion, the sum of softplus(z_k - z_j) over j and k but the label, over 2 (C - 1) (C - 2); pairs of a
    class with itself add a constant, as in the code that the method is known by). Discrimination reads the logits
    that training adjusts, as cross entropy does, and exclusion the plain ones. Needs three classes.
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
            "cpc draws the label away from each other class without end, and label smoothing bounds that gap: set "
            "train.loss.smoothing.epsilon=0, or train.loss.point.discrimination=0",
        ),
    )
    kind: Literal["cpc"] = "cpc"
    discrimination: float = Field(
        default=0.1, ge=0, le=100, json_schema_extra=SWEPT, title="CPC: weight of discrimination"
    )
    """Coefficient of the pairs of the label and another class."""
    exclusion: float = Field(default=1.0, ge=0, le=100, json_schema_extra=SWEPT, title="CPC: weight of exclusion")
    """Coefficient of the pairs of two other classes."""

    def check_classes(self, classes: int) -> None:
        """Refuse fewer than three classes.

        Raises:
            ValueError: there are fewer.
        """
        if classes < 3:
            raise ValueError(
                f"cpc compares classes other than the label with one another, so it needs three, however: {classes} "
                "have training rows. Use another train.loss.point.kind, or take another class in."
            )

    def batch_numbers(self, batch: int, classes: int) -> int:
        """Gaps between pairs of classes that are held at a time."""
        return CLASSES_AT_ONCE * classes

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Loss [N] of scores [N, C+] against targets, of which the pairs read the label alone.

        Raises:
            ValueError: there are fewer than three classes.
        """
        self.check_classes(scores.raw.shape[-1])
        told = discrimination(scores.adjusted, targets.own)
        apart = exclusion(scores.raw, targets.own)
        return -targets.mean(scores.log_p) + self.discrimination * told + self.exclusion * apart


def discrimination(logits: Tensor, own: Tensor) -> Tensor:
    """Mean [N] of softplus(z_k - z_y) over the classes k but the label, of logits [N, C] with labels own [N]."""
    each = softplus(logits - logits.gather(-1, own[:, None]))
    return (each * _others(logits, own)).sum(-1) / (logits.shape[-1] - 1)


def exclusion(logits: Tensor, own: Tensor) -> Tensor:
    """Sum [N] of softplus(z_k - z_j) over all j and k but the label, over 2 (C - 1) (C - 2), of logits [N, C].

    Value and slope are found class by class and outside the graph, which would otherwise hold every pair. The slope in
    z_k is the sum over j of sigmoid(z_k - z_j) - sigmoid(z_j - z_k) = tanh((z_k - z_j) / 2). It has no second
    derivative.
    """
    fixed, others, classes = logits.detach(), _others(logits, own), logits.shape[-1]
    value, slope = torch.zeros_like(fixed), torch.zeros_like(fixed)
    for start in range(0, classes, CLASSES_AT_ONCE):
        some = slice(start, start + CLASSES_AT_ONCE)
        gap, counts = fixed[:, None, :] - fixed[:, some, None], others[:, None, some]
        value = value + (counts @ softplus(gap)).squeeze(1)
        slope = slope + (counts @ (gap / 2).tanh()).squeeze(1)
    total = (others * (value + slope * (logits - fixed))).sum(-1)
    return total / (2 * (classes - 1) * (classes - 2))


def _others(logits: Tensor, own: Tensor) -> Tensor:
    """1 for the classes [N, C] but a row's own [N], else 0."""
    return (own[:, None] != torch.arange(logits.shape[-1], device=logits.device)).to(logits.dtype)
