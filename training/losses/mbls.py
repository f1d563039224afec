"""MbLS: a penalty on gaps between logits that exceed a margin."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.head import Core
from frostbench.heads.spec import SWEPT
from frostbench.training.losses.method import LossMethod, LossPart
from frostbench.training.losses.scores import Scores, Targets
from frostbench.training.losses.shared_rules import bounds_gaps, margin_binds
from frostbench.training.losses.step import Effect, Logs, StepContext, Updates
from frostbench.training.rule import Rule

Reduction = Literal["mean", "sum"]
MARGIN_LOG = "margin_active"
"""Log name of the share of penalised gaps between logits; at 0 the penalty has no effect."""


class Mbls(LossMethod):
    """Cross entropy plus a penalty on gaps to the largest logit that exceed a margin.

    Liu et al., "The devil is in the margin: margin-based label smoothing for network calibration", CVPR 2022:
    CE + strength * R with R = sum_k max(0, max_l z_l - z_k - margin). The official code takes the mean over k; the
    paper's sum is C times larger. The gaps are those of the logits before any margin head and logit adjustment. The
    largest logit has a gradient too, so the penalty also acts on the true class if its logit is the largest. Once all
    gaps are within the margin the loss is cross entropy: a good first margin is log((C - 1) c / (1 - c)), the gap at
    which the largest probability is c.
    """

    neutral: ClassVar[Mapping[str, float]] = {"strength": 0}
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "warn",
            lambda run: run.train.loss.point.kind == "mbls" and not run.train.loss.point.is_neutral and run.is_logreg,
            "the penalty of mbls has a kink where a gap equals the margin, at which the gradient need not vanish, so "
            "logreg may not converge: use head.classifier.kind=linear",
        ),
        bounds_gaps("mbls"),
        margin_binds("mbls"),
    )
    kind: Literal["mbls"] = "mbls"
    strength: float = Field(default=0.1, ge=0, le=100, json_schema_extra=SWEPT, title="MbLS: penalty strength")
    """Coefficient of the penalty; 0 gives cross entropy."""
    margin: float = Field(default=10.0, ge=0, le=1000, json_schema_extra=SWEPT, title="MbLS: logit margin")
    """Gap to the largest logit above which a class is penalised."""
    reduction: Reduction = Field(default="mean", title="MbLS: reduction over the classes")
    """Whether the penalty is the mean over the classes, as in the official code, or their sum, as in the paper."""

    def part(self, core: Core, classes: int, generator: torch.Generator) -> "MblsPart":
        """Build the part that logs the share of penalised gaps."""
        return MblsPart((MARGIN_LOG,))

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Return the loss [N] of scores [N, C+] against targets."""
        penalty = margin_penalty(scores.raw, self.margin, self.reduction)
        return -targets.mean(scores.log_p) + self.strength * penalty


class MblsPart(LossPart[Mbls]):
    """Part of MbLS that logs the share of penalised gaps between logits in each step."""

    def effect(self, method: Mbls, step: StepContext) -> Effect:
        """Log the share of penalised gaps."""

        def finish() -> tuple[Updates, Logs]:
            return {}, {MARGIN_LOG: active_counts(step.present_logits(), method.margin)}

        return Effect(finish=finish)


def margin_penalty(raw: Tensor, margin: float | Tensor, reduction: Reduction) -> Tensor:
    """Return the penalty [N] on logits raw [N, C] for gaps to the largest logit that exceed a margin.

    >>> margin_penalty(torch.tensor([[5.0, 2.0, 0.0, 4.0]]), 2.0, "mean")
    tensor([1.])
    """
    excess = (gaps(raw) - margin).relu()
    return excess.mean(-1) if reduction == "mean" else excess.sum(-1)


def active_share(raw: Tensor, margin: float | Tensor) -> Tensor:
    """Return the share [N] of classes whose gap to the largest of logits raw [N, C] exceeds a margin.

    >>> active_share(torch.tensor([[5.0, 2.0, 0.0, 4.0]]), 2.0)
    tensor([0.5000])
    """
    return (gaps(raw) > margin).to(raw.dtype).mean(-1)


def active_counts(raw: Tensor, margin: float | Tensor) -> Tensor:
    """Return sum and count [2] of the active shares of logits raw [N, C], without gradient."""
    active = active_share(raw.detach(), margin)
    return torch.stack([active.sum(), torch.ones_like(active).sum()])


def gaps(raw: Tensor) -> Tensor:
    """Return the gap of each of the logits raw [N, C] to the largest."""
    return raw.amax(-1, keepdim=True) - raw
