"""The CosFace head: a margin on the cosine of the true class in training."""

from typing import Literal

from pydantic import Field
from torch import Tensor

from frostbench.heads.classifier import Number
from frostbench.heads.spec import SWEPT, empty
from frostbench.heads.stepped.margin import MarginClassifier, number, warmed_up, with_own_changed


class CosFace(MarginClassifier):
    """A cosine classifier that subtracts a margin from the cosine of the true class in training.

    Wang et al., "CosFace: large margin cosine loss for deep face recognition", CVPR 2018, eq. 4. The default margin of
    0.15 suits frozen features: the gap between the true class's cosine and the others is often only 0.1 to 0.3, so the
    paper's 0.35 is out of reach. At a cosine of 0.7, 0.15 has about the same effect as ArcFace's 0.2.
    """

    kind: Literal["cosface"] = "cosface"
    margin: float = Field(default=0.15, ge=0, le=1, json_schema_extra=SWEPT, title="CosFace margin (cosine)")
    """Margin that is subtracted from the cosine of the true class in training."""
    scale: float | None = Field(
        default=None, ge=1, le=200, json_schema_extra=SWEPT | empty("by number of classes"), title="CosFace scale"
    )
    """Factor on the cosines; if empty, it is chosen by the number of classes (10 to 30)."""
    warmup: float = Field(
        default=0.15, ge=0, le=1, json_schema_extra=SWEPT, title="CosFace: margin warm-up (share of training)"
    )
    """Share of training during which the margin rises linearly from 0."""
    init: Literal["random", "class_means"] = Field(default="random", title="CosFace: initial weights")
    """Initial weights: random directions, or the mean direction of each class's rows."""

    def margined(self, logits: Tensor, own: Tensor, counts: Tensor, scale: Number, progress: Number) -> Tensor:
        """Return the logits [N, C+] = scale cos, with the margin on each row's class in own [N]; see `Classifier`."""
        margin = number(self.margin, logits) * warmed_up(progress, self.warmup, logits)
        return with_own_changed(logits, own, (-number(scale, logits) * margin).expand(len(logits)))
