"""The regulariser of LADE, a term over a batch."""

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


class Lade(LossMethod):
    """Pull each logit to the log ratio of its class's density to the density under balanced classes.

    Hong et al., "Disentangling label distribution for long-tailed visual recognition", CVPR 2021: the
    regularised Donsker-Varadhan estimate, for logits trained with logit adjustment of tau 1. Classes without a row in
    the batch are skipped, where the authors' code keeps half of their estimate.
    """

    tier: ClassVar[Tier] = "experimental"
    group: ClassVar[str] = "Contrast"
    trains: ClassVar[Literal["", "body", "classifier"]] = "classifier"
    neutral: ClassVar[Mapping[str, float]] = {"weight": 0}
    needs_single_labels: ClassVar[str] = "lade estimates the density of each class from its own rows"
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "refuse",
            lambda run: run.train.loss.lade.weight > 0 and run.is_solved,
            "lade fits the logits of a batch, and closed-form classifiers such as logreg have no batches: use "
            "head.classifier.kind=linear, or train.loss.lade.weight=0",
        ),
        Rule(
            "warn",
            lambda run: run.train.loss.lade.weight > 0 and run.train.loss.logit_adjustment.tau != 1,
            "lade pulls logits to the optimum of logit adjustment with tau 1, and plain cross entropy pulls them "
            "back: set train.loss.logit_adjustment.tau=1",
        ),
    )
    kind: Literal["lade"] = "lade"
    weight: float = Field(default=0.0, ge=0, le=100, json_schema_extra=SWEPT, title="LADE weight")
    """Coefficient of the term added to the mean point loss; 0 omits it, and 0.1 is common."""
    penalty: float = Field(default=0.1, ge=0, le=10, json_schema_extra=SWEPT, title="LADE: penalty on the normaliser")
    """Coefficient of the squared log of the normaliser, which stabilises the estimate."""

    def part(self, core: Core, classes: int, generator: torch.Generator) -> "LadePart | None":
        """Build the part that adds the term."""
        return None if self.weight == 0 else LadePart()

    def __call__(self, logits: Tensor, labels: Tensor, log_prior: Tensor) -> Tensor:
        """Return the term, a scalar, for unadjusted logits [N, C], labels [N] and the log prior [C] of drawn rows."""
        rows, classes = logits.shape
        member = (labels[:, None] == torch.arange(classes, device=labels.device)).to(logits.dtype)
        counts = member.sum(0)
        log_prior = log_prior.to(logits.dtype)
        first = (member * logits).sum(0) / counts.clamp(min=1)
        # Rows follow the prior, so weights 1 / (C prior) on exp(z) emulate balanced classes.
        second = logits.logsumexp(0) - log_prior - math.log(classes) - math.log(rows)
        estimate = first - second - self.penalty * second.square()
        return -(torch.where(counts > 0, estimate, 0) * log_prior.exp()).sum()


class LadePart(LossPart[Lade]):
    """LADE term that is added to the loss of each step."""

    def effect(self, method: Lade, step: StepContext) -> Effect:
        """Add the term."""

        def term() -> Tensor:
            return method.weight * method(step.present_logits(), step.label_index, step.statistics.drawn.log())

        return Effect(term=term)
