"""MMCE: the calibration error of a batch, by a kernel; a term over a whole batch."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.head import Core
from frostbench.heads.spec import SWEPT, Tier
from frostbench.training.losses.method import LossMethod, LossPart
from frostbench.training.losses.shared_rules import corrects_confidence
from frostbench.training.losses.step import Effect, StepContext
from frostbench.training.rule import Rule


class Mmce(LossMethod):
    """The distance between confidence and correctness of a batch, in the space of a Laplacian kernel (MMCE).

    Kumar et al., "Trainable calibration measures for neural networks from kernel mean embeddings", ICML 2018. With r
    the largest probability of a row, c whether it is that of its class (without gradient) and k = exp(-|r - r'| /
    width), form squared is the mean of (c - r) (c' - r') k over all pairs of rows. Form weighted weighs rows that are
    right and rows that are wrong alike, whatever their numbers, and takes the root: the norm of the mean of 1 - r over
    the first less the mean of r over the second. Its official code divides by those numbers twice, which makes it
    another function of a batch. Probabilities are those of the plain logits, without a prior or a margin head's shift.
    """

    tier: ClassVar[Tier] = "experimental"
    group: ClassVar[str] = "Confidence"
    neutral: ClassVar[Mapping[str, float]] = {"weight": 0}
    needs_single_labels: ClassVar[str] = "mmce, unlike mdca, checks whether each row is predicted correctly"
    rules: ClassVar[tuple[Rule, ...]] = corrects_confidence("mmce")
    kind: Literal["mmce"] = "mmce"
    weight: float = Field(default=0.0, ge=0, le=100, json_schema_extra=SWEPT, title="MMCE weight")
    """Coefficient of the term beside the mean of the point loss; 0 leaves it out and 2 to 4 is usual."""
    form: Literal["squared", "weighted"] = Field(default="squared", title="MMCE: weighting of pairs")
    """Whether all pairs of rows count alike, without a root; or right and wrong rows weigh alike, under a root."""
    width: float = Field(default=0.4, gt=0, le=10, json_schema_extra=SWEPT, title="MMCE: kernel width")
    """Difference of confidence at which the kernel has fallen to 1/e."""

    def batch_numbers(self, batch: int, classes: int) -> int:
        """Kernel values of a row with those of its batch."""
        return batch if self.weight > 0 else 0

    def part(self, core: Core, classes: int, generator: torch.Generator) -> "MmcePart | None":
        """Build the part that adds the term."""
        return None if self.weight == 0 else MmcePart()

    def __call__(self, logits: Tensor, own: Tensor) -> Tensor:
        """The term, a scalar, for logits [N, C+] of rows of one class each, whose places own [N] are."""
        sure, place = logits.softmax(-1).max(-1)
        right = (place == own).to(logits.dtype)
        kernel = (-(sure[:, None] - sure).abs() / self.width).exp()
        if self.form == "squared":
            off = (right - sure) / len(sure)
            return off @ kernel @ off
        wrong = 1 - right
        off = right * (1 - sure) / right.sum().clamp(min=1) - wrong * sure / wrong.sum().clamp(min=1)
        return _root(off @ kernel @ off)


class MmcePart(LossPart[Mmce]):
    """The term in a step."""

    def effect(self, method: Mmce, step: StepContext) -> Effect:
        """Add the term."""

        def term() -> Tensor:
            return method.weight * method(step.present_logits(), step.own)

        return Effect(term=term)


def _root(squared: Tensor) -> Tensor:
    """The root of a scalar; where that is 0, or less by rounding, 0 without the gradient, which has no bound there."""
    seen = squared > torch.finfo(squared.dtype).eps
    return torch.where(seen, torch.where(seen, squared, 1.0).sqrt(), 0.0)
