"""Label smoothing."""

from typing import Literal

from pydantic import Field
from torch import Tensor

from heads.spec import SWEPT, Spec
from training.losses.scores import Targets


class LabelSmoothing(Spec):
    """Move a share of each target from its class to all classes.

    Szegedy et al., "Rethinking the Inception architecture", CVPR 2016, section 7.
    """

    kind: Literal["label_smoothing"] = "label_smoothing"
    epsilon: float = Field(default=0.0, ge=0, lt=1, json_schema_extra=SWEPT)
    """Share that is moved; 0 leaves the labels hard."""
    spread: Literal["uniform", "prior"] = "uniform"
    """Where the share goes: evenly, or by the effective prior (shares times weights), which suits logit adjustment."""

    def __call__(self, own: Tensor, prior: Tensor) -> Targets:
        """Targets of samples whose labels have these places [N] among the C classes of a prior [C]."""
        return Targets(own, self.epsilon, prior if self.spread == "prior" else None)
