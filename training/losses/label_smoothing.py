"""Label smoothing."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor

from frostbench.heads.spec import SWEPT
from frostbench.training.losses.method import LossMethod
from frostbench.training.losses.scores import Targets


class LabelSmoothing(LossMethod):
    """Move a share of each target from the label to all classes.

    Szegedy et al., "Rethinking the Inception architecture", CVPR 2016, section 7. Some code, such as that of MDCA
    (Hebbalaguppe et al., CVPR 2022), moves the share only to the other classes, each of which gets epsilon / (C - 1).
    This equals uniform smoothing with epsilon C / (C - 1).
    """

    shapes_point: ClassVar[bool] = True
    neutral: ClassVar[Mapping[str, float]] = {"epsilon": 0}
    kind: Literal["label_smoothing"] = "label_smoothing"
    epsilon: float = Field(default=0.0, ge=0, lt=1, json_schema_extra=SWEPT, title="Label smoothing ε")
    """Share of each label that is spread over the classes; 0 keeps hard labels."""
    spread: Literal["uniform", "others", "prior"] = Field(
        default="uniform", title="Label smoothing: target distribution"
    )
    """Distribution of the share: uniform over all classes, over the others, or the prior, for logit adjustment.

    The prior is the effective one: class shares times class weights.
    """

    def __call__(self, label_index: Tensor, prior: Tensor) -> Targets:
        """Return the targets of samples whose labels [N] are indices into the classes of a prior [C]."""
        moved = self.epsilon
        if self.spread == "others":
            # A single class keeps its whole target, whatever is moved.
            moved = moved * (len(prior) / max(len(prior) - 1, 1))
        return Targets(label_index, moved, prior if self.spread == "prior" else None)
