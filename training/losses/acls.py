"""ACLS: squared penalties on a large largest logit, and on other logits far below it."""

from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor

from frostbench.heads.spec import SWEPT, Spec, Tier
from frostbench.training.losses.scores import Scores, Targets


class Acls(Spec):
    """Cross entropy, and a smoothing that grows with confidence and acts beyond a margin only.

    Park et al., "ACLS: adaptive and conditional label smoothing for network calibration", ICCV 2023, in the form of
    its official code: strength * (positive * max(0, z_max - margin)^2 + negative * mean over the other classes of
    max(0, z_max - z_k - margin)^2), on the plain logits without a prior or a margin head's shift. The first part reads
    the largest logit itself, so a constant added to all logits changes it; in the second, z_max is taken as fixed.
    Logits that tie for the largest share the first part's gradient, where the official code counts each of them.
    """

    tier: ClassVar[Tier] = "experimental"
    kind: Literal["acls"] = "acls"
    strength: float = Field(default=0.1, ge=0, le=100, json_schema_extra=SWEPT)
    """Coefficient of both penalties; 0 is cross entropy."""
    positive: float = Field(default=1.0, ge=0, le=100, json_schema_extra=SWEPT)
    """Coefficient of the penalty on the largest logit."""
    negative: float = Field(default=0.1, ge=0, le=100, json_schema_extra=SWEPT)
    """Coefficient of the penalty on the other logits."""
    margin: float = Field(default=10.0, ge=0, le=1000, json_schema_extra=SWEPT)
    """From where both act: the size of the largest logit, and the gap of another one to it."""

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
