"""CosFace: a margin on the own class's cosine during training."""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.classifier import Classifier, Number
from frostbench.heads.fitting_rows import Rows
from frostbench.heads.spec import SWEPT, empty
from frostbench.heads.stepped.cosine import CosineLayer, random_layer, start_at_means
from frostbench.heads.stepped.margin import number, warmed_up, with_own_changed
from frostbench.heads.stepped.scale import WIDEST_SCALE


class CosFace(Classifier):
    """A cosine classifier that in training must find the own class with its cosine lowered by a margin.

    Wang et al., "CosFace: large margin cosine loss for deep face recognition", CVPR 2018, eq. 4. The margin of 0.15
    is for frozen features: between their own and their other cosines there are often no more than 0.1 to 0.3, and
    the 0.35 of the paper is out of reach. It costs as much as ArcFace's 0.2 where the own cosine is 0.7.
    """

    is_cosine: ClassVar[bool] = True
    sets_margin: ClassVar[bool] = True
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

    @property
    def logit_bound(self) -> float:
        """The scale, or the widest one that follows from a number of classes."""
        return WIDEST_SCALE if self.scale is None else self.scale

    @property
    def reads_all_at_once(self) -> str:
        """The start at class means, for which all rows are read."""
        return "init=class_means" if self.init == "class_means" else ""

    def build(self, dim: int, classes: int, generator: torch.Generator) -> CosineLayer:
        """The layer from width dim to that many classes, with random directions from generator."""
        return random_layer(dim, classes, self.scale, generator)

    def start(self, layer: CosineLayer, rows: Rows, generator: torch.Generator) -> None:
        """Move the layer's weights to where init says."""
        if self.init == "class_means":
            start_at_means(layer, rows, generator)

    def margined(self, logits: Tensor, own: Tensor, counts: Tensor, scale: Number, progress: Number) -> Tensor:
        """The logits [N, C+] = scale cos, with the margin on each row's own [N] class; progress 0..1."""
        margin = number(self.margin, logits) * warmed_up(progress, self.warmup, logits)
        return with_own_changed(logits, own, (-number(scale, logits) * margin).expand(len(logits)))
