"""CosFace: a margin on the own class's cosine during training."""

from typing import Literal

from pydantic import Field
from torch import Tensor

from frostbench.heads.classifier import Number
from frostbench.heads.spec import SWEPT, empty
from frostbench.heads.stepped.margin import number, warmed_up, with_own_changed
from frostbench.heads.stepped.margin_classifier import MarginClassifier


class CosFace(MarginClassifier):
    """A cosine classifier that in training must find the own class with its cosine lowered by a margin.

    Wang et al., "CosFace: large margin cosine loss for deep face recognition", CVPR 2018, eq. 4. The margin of 0.15
    is for frozen features: between their own and their other cosines there are often no more than 0.1 to 0.3, and
    the 0.35 of the paper is out of reach. It costs as much as ArcFace's 0.2 where the own cosine is 0.7.
    """

    kind: Literal["cosface"] = "cosface"
    margin: float = Field(default=0.15, ge=0, le=1, json_schema_extra=SWEPT, title="CosFace margin (cosine)")
    """Margin subtracted from the cosine of the own class in training."""
    scale: float | None = Field(
        default=None, ge=1, le=200, json_schema_extra=SWEPT | empty("by number of classes"), title="CosFace scale"
    )
    """Factor on the cosines; left empty, it follows from the number of classes (10 to 30)."""
    warmup: float = Field(
        default=0.15, ge=0, le=1, json_schema_extra=SWEPT, title="CosFace: warm-up share of the margin"
    )
    """Share of the training over which the margin rises linearly from 0."""
    init: Literal["random", "class_means"] = Field(default="random", title="CosFace: initial weights")
    """Initial weights: random directions, or the mean direction of each class's rows."""

    @property
    def is_marginless(self) -> bool:
        """Whether its margin is 0."""
        return self.margin == 0

    def margined(self, logits: Tensor, own: Tensor, counts: Tensor, scale: Number, progress: Number) -> Tensor:
        """The logits [N, C+] = scale cos, with the margin on each row's own [N] class; progress 0..1."""
        margin = number(self.margin, logits) * warmed_up(progress, self.warmup, logits)
        return with_own_changed(logits, own, (-number(scale, logits) * margin).expand(len(logits)))
