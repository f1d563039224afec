"""ACLS: squared penalties on a large largest logit, and on other logits far below it."""

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
    """Cross entropy, and a smoothing that grows with confidence and acts beyond a margin only.

    Park et al., "ACLS: adaptive and conditional label smoothing for network calibration", ICCV 2023, in the form of
    its official code: strength * (positive * max(0, z_max - margin)^2 + negative * mean over the other classes of
    max(0, z_max - z_k - margin)^2), on the plain logits without a prior or a margin head's shift. The first part reads
    the largest logit itself, so a constant added to all logits changes it; in the second, z_max is taken as fixed.
    Logits that tie for the largest share the first part's gradient, where the official code counts each of them.
    """

    tier: ClassVar[Tier] = "experimental"
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "refuse",
            lambda run: run.train.loss.point.kind == "acls" and run.is_logreg,
            "acls takes the largest logit as fixed in part of it, so its slope is that of no function and logreg has "
            "no optimum to find: use train.loss.point.kind=cross_entropy, or head.classifier.kind=linear",
        ),
        bounds_gaps("acls"),
        margin_binds("acls"),
        Rule(
            "warn",
            lambda run: _leaves_largest(run.train.loss.point, run.largest_logit),
            "a logit of a cosine classifier is at most its scale, so with that margin acls leaves the largest logit "
            "alone: lower train.loss.point.margin, or use a loss that penalises gaps alone",
        ),
    )
    neutral: ClassVar[Mapping[str, float]] = {"strength": 0}
    kind: Literal["acls"] = "acls"
    strength: float = Field(default=0.1, ge=0, le=100, json_schema_extra=SWEPT, title="ACLS: penalty strength")
    """Coefficient of both penalties; 0 is cross entropy."""
    positive: float = Field(
        default=1.0, ge=0, le=100, json_schema_extra=SWEPT, title="ACLS: weight for the largest logit"
    )
    """Coefficient of the penalty on the largest logit."""
    negative: float = Field(
        default=0.1, ge=0, le=100, json_schema_extra=SWEPT, title="ACLS: weight for the other logits"
    )
    """Coefficient of the penalty on the other logits."""
    margin: float = Field(default=10.0, ge=0, le=1000, json_schema_extra=SWEPT, title="ACLS: logit margin")
    """Threshold of both penalties: the size of the largest logit, and the gap of another one to it."""

    @property
    def is_neutral(self) -> bool:
        """Whether no penalty is left."""
        return self.strength == 0 or self.positive == self.negative == 0

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Loss [N] of scores [N, C+] against targets."""
        return -targets.mean(scores.log_p) + self.strength * self.penalty(scores.raw)

    def penalty(self, raw: Tensor) -> Tensor:
        """The two penalties together [N] for logits raw [N, C+], before the strength."""
        largest = raw.amax(-1)
        high = (largest - self.margin).relu().square()
        # The largest logit is no gap below itself, so its place in the sum is 0.
        low = (largest.detach()[:, None] - raw - self.margin).relu().square().sum(-1) / max(raw.shape[-1] - 1, 1)
        return self.positive * high + self.negative * low


def _leaves_largest(point: object, largest: float) -> bool:
    """Whether the margin is above every logit, and below the widest gap."""
    if not isinstance(point, Acls) or point.positive == 0 or point.is_neutral:
        return False
    return largest <= point.margin < 2 * largest
