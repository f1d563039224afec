"""The regulariser of LADE, a term over a whole batch."""

import math
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.spec import SWEPT, Spec, Tier


class Lade(Spec):
    """Draw each logit to the log ratio of its class's density to that of all classes alike.

    Hong et al., "Disentangling label distribution for long-tailed visual recognition", CVPR 2021: the
    regularised Donsker-Varadhan estimate, for logits that are trained with logit adjustment of tau 1. Classes without
    a row in the batch are left out, where the authors' code keeps half of their estimate.
    """

    tier: ClassVar[Tier] = "experimental"
    kind: Literal["lade"] = "lade"
    weight: float = Field(default=0.0, ge=0, le=100, json_schema_extra=SWEPT)
    """Coefficient of the term beside the mean of the point loss; 0 leaves it out and 0.1 is usual."""
    penalty: float = Field(default=0.1, ge=0, le=10, json_schema_extra=SWEPT)
    """Coefficient of the squared log of the normaliser, which keeps the estimate steady."""

    def __call__(self, logits: Tensor, labels: Tensor, log_prior: Tensor) -> Tensor:
        """The term, a scalar, for unadjusted logits [N, C], labels [N] and the log prior [C] of the batch's rows."""
        rows, classes = logits.shape
        member = (labels[:, None] == torch.arange(classes, device=labels.device)).to(logits.dtype)
        counts = member.sum(0)
        log_prior = log_prior.to(logits.dtype)
        first = (member * logits).sum(0) / counts.clamp(min=1)
        # Rows follow the prior, so exp(z) weighs 1 / (C prior) to stand for classes that come alike.
        second = logits.logsumexp(0) - log_prior - math.log(classes) - math.log(rows)
        estimate = first - second - self.penalty * second.square()
        return -(torch.where(counts > 0, estimate, 0) * log_prior.exp()).sum()
