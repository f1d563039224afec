"""MDCA: mean predictions of a batch against its class shares; a term over a batch."""

from collections.abc import Mapping, Sequence
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


class Mdca(LossMethod):
    """Mean over the classes of |mean probability of the class in the batch - its share of the batch's labels|.

    Hebbalaguppe et al., "A stitch in time saves nine: a train-time regularizing loss for improved neural network
    calibration", CVPR 2022. Mixed rows count towards both labels by their shares; smoothing and class weights are
    ignored. Probabilities are those of the logits before any margin and logit adjustment.
    """

    tier: ClassVar[Tier] = "experimental"
    group: ClassVar[str] = "Confidence"
    neutral: ClassVar[Mapping[str, float]] = {"weight": 0}
    rules: ClassVar[tuple[Rule, ...]] = corrects_confidence("mdca")
    kind: Literal["mdca"] = "mdca"
    weight: float = Field(default=0.0, ge=0, le=100, json_schema_extra=SWEPT, title="MDCA weight")
    """Coefficient of the term added to the mean point loss; 0 omits it, and 1 is common."""

    def part(self, core: Core, classes: int, generator: torch.Generator) -> "MdcaPart | None":
        """Build the part that adds the term."""
        return None if self.weight == 0 else MdcaPart()

    def __call__(self, logits: Tensor, shared: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """Return the term, a scalar, for logits [N, C+] and pairs of label columns and shares [N]; shares sum to 1."""
        classes = torch.arange(logits.shape[-1], device=logits.device)
        of_labels = logits.new_zeros(logits.shape[-1])
        for label_index, share in shared:
            member = (label_index[:, None] == classes).to(logits.dtype)
            of_labels = of_labels + (member * share.to(logits.dtype)[:, None]).mean(0)
        return (logits.softmax(-1).mean(0) - of_labels).abs().mean()


class MdcaPart(LossPart[Mdca]):
    """MDCA calibration penalty that is added to the loss of each step."""

    def effect(self, method: Mdca, step: StepContext) -> Effect:
        """Add the term."""

        def term() -> Tensor:
            shared = [(step.statistics.position[branch.labels], branch.share) for branch in step.branches]
            return method.weight * method(step.present_logits(), shared)

        return Effect(term=term)
