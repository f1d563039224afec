"""ACLS: squared penalties on a large top logit, and on other logits far below it."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor

from frostbench.heads.spec import SWEPT, Tier
from frostbench.training.losses.method import LossMethod
from frostbench.training.losses.scores import Scores, Targets
from frostbench.training.losses.shared_rules import bounds_gaps, margin_binds
from frostbench.training.rule import Rule


class Acls(LossMethod):
    """Cross entropy plus a smoothing penalty that grows with confidence and acts only beyond a margin.

    Park et al., "ACLS: adaptive and conditional label smoothing for network calibration", ICCV 2023, in the form of
    its official code: strength * (positive * max(0, z_max - margin)^2 + negative * mean over the other classes of
    max(0, z_max - z_k - margin)^2), on the logits before any margin and logit adjustment. The first penalty uses the
    largest logit itself, so adding a constant to all logits changes it; in the second, z_max is detached.
    Tied largest logits share the gradient of the first penalty, where the official code counts each of them in full.
    """

    tier: ClassVar[Tier] = "experimental"
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "refuse",
            lambda run: run.train.loss.point.kind == "acls" and run.is_logreg,
            "acls detaches the largest logit in one of its penalties, so its gradient is that of no function, and "
            "logreg has no optimum to find: use train.loss.point.kind=cross_entropy, or head.classifier.kind=linear",
        ),
        bounds_gaps("acls"),
        margin_binds("acls"),
        Rule(
            "warn",
            lambda run: _leaves_largest(run.train.loss.point, run.largest_logit),
            "a logit of a cosine classifier is at most its scale, so with this margin acls never penalises the largest "
            "logit: lower train.loss.point.margin, or use a loss that penalises only gaps",
        ),
    )
    neutral: ClassVar[Mapping[str, float]] = {"strength": 0}
    kind: Literal["acls"] = "acls"
    strength: float = Field(default=0.1, ge=0, le=100, json_schema_extra=SWEPT, title="ACLS: penalty strength")
    """Coefficient of both penalties; 0 gives cross entropy."""
    positive: float = Field(
        default=1.0, ge=0, le=100, json_schema_extra=SWEPT, title="ACLS: weight for the largest logit"
    )
    """Coefficient of the penalty on the largest logit."""
    negative: float = Field(
        default=0.1, ge=0, le=100, json_schema_extra=SWEPT, title="ACLS: weight for the other logits"
    )
    """Coefficient of the penalty on the other logits."""
    margin: float = Field(default=10.0, ge=0, le=1000, json_schema_extra=SWEPT, title="ACLS: logit margin")
    """Threshold of both penalties: for the largest logit itself, and for the gap between it and another logit."""

    @property
    def is_neutral(self) -> bool:
        """Whether both penalties are switched off."""
        return self.strength == 0 or self.positive == self.negative == 0

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Return the loss [N] of scores [N, C+] against targets."""
        return -targets.mean(scores.log_p) + self.strength * self.penalty(scores.raw)

    def penalty(self, raw: Tensor) -> Tensor:
        """Return the sum [N] of both penalties on logits raw [N, C+], before the strength."""
        largest = raw.amax(-1)
        high = (largest - self.margin).relu().square()
        # The largest logit adds 0 to the sum.
        low = (largest.detach()[:, None] - raw - self.margin).relu().square().sum(-1) / max(raw.shape[-1] - 1, 1)
        return self.positive * high + self.negative * low


def _leaves_largest(point: object, largest: float) -> bool:
    """Whether the margin exceeds every logit but not the widest gap."""
    if not isinstance(point, Acls) or point.positive == 0 or point.is_neutral:
        return False
    return largest <= point.margin < 2 * largest
