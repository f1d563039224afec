"""MMCE: a kernel estimate of calibration error; a term over a batch."""

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
    """Kernel distance between the confidence and the correctness of a batch, with a Laplacian kernel (MMCE).

    Kumar et al., "Trainable calibration measures for neural networks from kernel mean embeddings", ICML 2018. With r
    the largest probability of a row, c 1 if its class is correct, else 0, and k = exp(-|r - r'| / width), form squared
    is the mean of (c - r) (c' - r') k over all pairs of rows. Form weighted gives correct and incorrect rows the same
    total weight and takes the root: the kernel norm of the mean of 1 - r over the correct rows minus the mean of r over
    the incorrect ones. The official code divides by the numbers of these rows twice, which is a different function.
    Probabilities are those of the logits before any margin and logit adjustment.
    """

    tier: ClassVar[Tier] = "experimental"
    group: ClassVar[str] = "Confidence"
    neutral: ClassVar[Mapping[str, float]] = {"weight": 0}
    needs_single_labels: ClassVar[str] = "mmce, unlike mdca, checks whether each row is predicted correctly"
    rules: ClassVar[tuple[Rule, ...]] = corrects_confidence("mmce")
    kind: Literal["mmce"] = "mmce"
    weight: float = Field(default=0.0, ge=0, le=100, json_schema_extra=SWEPT, title="MMCE weight")
    """Coefficient of the term added to the mean point loss; 0 omits it, and 2 to 4 is common."""
    form: Literal["squared", "weighted"] = Field(default="squared", title="MMCE: weighting of pairs")
    """Weights: equal for pairs of rows (squared), or for all correct and all incorrect rows, with a root (weighted)."""
    width: float = Field(default=0.4, gt=0, le=10, json_schema_extra=SWEPT, title="MMCE: kernel width")
    """Difference in confidence at which the kernel falls to 1/e."""

    def batch_numbers(self, batch: int, classes: int) -> int:
        """Return the number of kernel values per row, one for each row of its batch."""
        return batch if self.weight > 0 else 0

    def part(self, core: Core, classes: int, generator: torch.Generator) -> "MmcePart | None":
        """Build the part that adds the term."""
        return None if self.weight == 0 else MmcePart()

    def __call__(self, logits: Tensor, label_index: Tensor) -> Tensor:
        """Return the term, a scalar, for logits [N, C+] of unmixed rows with label columns [N]."""
        confidence, predicted = logits.softmax(-1).max(-1)
        right = (predicted == label_index).to(logits.dtype)
        kernel = (-(confidence[:, None] - confidence).abs() / self.width).exp()
        if self.form == "squared":
            error = (right - confidence) / len(confidence)
            return error @ kernel @ error
        wrong = 1 - right
        error = right * (1 - confidence) / right.sum().clamp(min=1) - wrong * confidence / wrong.sum().clamp(min=1)
        return _root(error @ kernel @ error)


class MmcePart(LossPart[Mmce]):
    """MMCE calibration penalty that is added to the loss of each step."""

    def effect(self, method: Mmce, step: StepContext) -> Effect:
        """Add the term."""

        def term() -> Tensor:
            return method.weight * method(step.present_logits(), step.label_index)

        return Effect(term=term)


def _root(squared: Tensor) -> Tensor:
    """Return the root of a scalar; values up to the type's epsilon give 0, without the unbounded gradient."""
    is_positive = squared > torch.finfo(squared.dtype).eps
    return torch.where(is_positive, torch.where(is_positive, squared, 1.0).sqrt(), 0.0)
