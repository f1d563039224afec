"""View consistency, a term over a batch that holds all views of each image."""

import math
from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.head import Core
from frostbench.heads.spec import SWEPT, Tier
from frostbench.training.losses.method import LossMethod, LossPart
from frostbench.training.losses.step import Effect, StepContext
from frostbench.training.rule import Rule


class Consistency(LossMethod):
    """Pull the predictions for all views of an image to their mean, by their Jensen-Shannon divergence.

    Hendrycks et al., "AugMix: a simple data processing method to improve robustness and uncertainty", ICLR 2020,
    section 3, with weight 12 for three views. In the paper the point loss sees only the clean image; here it sees
    every view.
    """

    tier: ClassVar[Tier] = "experimental"
    group: ClassVar[str] = "Contrast"
    neutral: ClassVar[Mapping[str, float]] = {"weight": 0}
    needs_single_labels: ClassVar[str] = "consistency compares the views of one image, not blends with another image"
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "refuse",
            lambda run: run.train.loss.consistency.weight > 0 and run.train.views != "together",
            "consistency compares the views of an image within a batch: set train.views=together, or "
            "train.loss.consistency.weight=0",
        ),
        Rule(
            "refuse",
            lambda run: run.train.loss.consistency.weight > 0 and run.is_solved,
            "consistency acts on batches, and closed-form classifiers such as logreg have none: use "
            "head.classifier.kind=linear, or train.loss.consistency.weight=0",
        ),
    )
    kind: Literal["consistency"] = "consistency"
    weight: float = Field(default=0.0, ge=0, le=1000, json_schema_extra=SWEPT, title="View consistency weight")
    """Coefficient of the term added to the mean point loss; 0 omits it. Needs train.views=together."""

    def part(self, core: Core, classes: int, generator: torch.Generator) -> "ConsistencyPart | None":
        """Build the part that adds the term."""
        return None if self.weight == 0 else ConsistencyPart()

    def __call__(self, logits: Tensor, views: int) -> Tensor:
        """Return the term, a scalar in [0, log V], for logits [N, C] of images with V consecutive views each.

        >>> z = torch.tensor([[0.9, 0.1], [0.5, 0.5]]).log()
        >>> round(Consistency()(z, 2).item(), 4), round(Consistency()(z, 1).item(), 4)
        (0.1017, 0.0)
        """
        log_p = logits.reshape(-1, views, logits.shape[-1]).log_softmax(-1)
        log_mean = log_p.logsumexp(1, keepdim=True) - math.log(views)
        divergence: Tensor = (log_p.exp() * (log_p - log_mean)).sum(-1).mean()
        return divergence


class ConsistencyPart(LossPart[Consistency]):
    """Consistency term that is added to the loss of each step."""

    def effect(self, method: Consistency, step: StepContext) -> Effect:
        """Add the term."""

        def term() -> Tensor:
            return method.weight * method(step.present_logits(), step.views)

        return Effect(term=term)
