"""Label smoothing."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor

from frostbench.heads.spec import SWEPT
from frostbench.training.losses.method import LossMethod
from frostbench.training.losses.scores import Targets


class LabelSmoothing(LossMethod):
    """Move a share of each target from its class to all classes.

    Szegedy et al., "Rethinking the Inception architecture", CVPR 2016, section 7. Some code, such as that of MDCA
    (Hebbalaguppe et al., CVPR 2022), moves it to the other classes alone, each of which gets epsilon / (C - 1): the
    same as evenly to all with epsilon C / (C - 1).
    """

    shapes_point: ClassVar[bool] = True
    neutral: ClassVar[Mapping[str, float]] = {"epsilon": 0}
    kind: Literal["label_smoothing"] = "label_smoothing"
    epsilon: float = Field(default=0.0, ge=0, lt=1, json_schema_extra=SWEPT, title="Label smoothing ε")
    """Share of each label that is spread over classes; 0 leaves the labels hard."""
    spread: Literal["uniform", "others", "prior"] = Field(
        default="uniform", title="Label smoothing: target distribution"
    )
    """Where the share goes: to all classes evenly, to the others evenly, or by the prior, which suits logit adjustment.

    The prior is the effective one: shares of the classes times their weights.
    """

    def __call__(self, own: Tensor, prior: Tensor) -> Targets:
        """Targets of samples whose labels have these places [N] among the C classes of a prior [C]."""
        moved = self.epsilon
        if self.spread == "others":
            # One class has no others, and keeps all of its target whatever is moved.
            moved = moved * (len(prior) / max(len(prior) - 1, 1))
        return Targets(own, moved, prior if self.spread == "prior" else None)
