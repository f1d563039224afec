"""Confidence penalty by the entropy of the predictions."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor

from frostbench.heads.spec import SWEPT, Tier
from frostbench.training.losses.method import LossMethod
from frostbench.training.losses.scores import Scores, Targets
from frostbench.training.losses.shared_rules import bounds_gaps
from frostbench.training.rule import Rule


class Ecp(LossMethod):
    """Cross entropy minus strength times the entropy of the prediction (explicit confidence penalty).

    Pereyra et al., "Regularizing neural networks by penalizing confident output distributions", ICLR workshop 2017:
    the entropy is a sum over the classes. Public code that uses it as a baseline for margin-based smoothing takes the
    mean, which is C times smaller. The entropy is that of the softmax of the logits before any margin and logit
    adjustment. The loss can be negative.
    """

    tier: ClassVar[Tier] = "experimental"
    neutral: ClassVar[Mapping[str, float]] = {"strength": 0}
    rules: ClassVar[tuple[Rule, ...]] = (bounds_gaps("ecp"),)
    kind: Literal["ecp"] = "ecp"
    strength: float = Field(default=0.1, ge=0, le=100, json_schema_extra=SWEPT, title="Entropy penalty: strength")
    """Coefficient of the entropy; 0 gives cross entropy."""
    reduction: Literal["sum", "mean"] = Field(default="sum", title="Entropy penalty: reduction over the classes")
    """Whether the entropy is the sum over the classes, as defined, or the mean over them."""

    @property
    def is_convex(self) -> bool:
        """Whether the loss is convex in the logits."""
        return self.is_neutral

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Return the loss [N] of scores [N, C+] against targets."""
        entropy = entropy_of(scores.raw)
        if self.reduction == "mean":
            entropy = entropy / scores.raw.shape[-1]
        return -targets.mean(scores.log_p) - self.strength * entropy


def entropy_of(logits: Tensor) -> Tensor:
    """Return the entropy [N] in nats of the softmax of logits [N, C].

    >>> import torch
    >>> entropy_of(torch.zeros(1, 4)) / torch.tensor(4.0).log()
    tensor([1.])
    """
    log_p = logits.log_softmax(-1)
    return -(log_p.exp() * log_p).sum(-1)
