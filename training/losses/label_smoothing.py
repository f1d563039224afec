"""Label smoothing."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from heads.spec import SWEPT, Spec


class LabelSmoothing(Spec):
    """Move a share of each target from its class to all classes.

    Szegedy et al., "Rethinking the Inception architecture", CVPR 2016, section 7.
    """

    kind: Literal["label_smoothing"] = "label_smoothing"
    epsilon: float = Field(default=0.0, ge=0, lt=1, json_schema_extra=SWEPT)
    """Share that is moved; 0 leaves the labels hard."""
    spread: Literal["uniform", "prior"] = "uniform"
    """Where the share goes: evenly, or by the effective prior (shares times weights), which suits logit adjustment."""

    def __call__(self, labels: Tensor, prior: Tensor) -> Tensor:
        """Targets [N, C] of labels [N] for the class prior [C], in the prior's dtype."""
        hard = (labels[:, None] == torch.arange(len(prior), device=labels.device)).to(prior.dtype)
        where = prior if self.spread == "prior" else prior.new_full(prior.shape, 1 / len(prior))
        return (1 - self.epsilon) * hard + self.epsilon * where
