"""The LDAM head: a cosine classifier whose training margin is larger for rarer classes."""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.classifier import Classifier, Number
from frostbench.heads.fitting_rows import Rows
from frostbench.heads.spec import SWEPT, empty
from frostbench.heads.stepped.cosine import CosineLayer, random_layer, start_at_means
from frostbench.heads.stepped.margin import class_margins, number, with_own_changed
from frostbench.heads.stepped.scale import WIDEST_SCALE


class Ldam(Classifier):
    """A cosine classifier that in training lowers the own cosine by max_margin (n_min / n_j)^(1/4).

    Cao et al., "Learning imbalanced datasets with label-distribution-aware margin loss", NeurIPS 2019, eq. 13. The
    margins are differences of cosines: on unbounded logits they would mean nothing. The paper adds deferred class
    weights.
    """

    is_cosine: ClassVar[bool] = True
    sets_margin: ClassVar[bool] = True
    kind: Literal["ldam"] = "ldam"
    max_margin: float = Field(
        default=0.5, ge=0, le=1, json_schema_extra=SWEPT, title="LDAM: margin of the rarest class"
    )
    """Margin of the rarest class."""
    scale: float | None = Field(
        default=30.0, ge=1, le=200, json_schema_extra=SWEPT | empty("by number of classes"), title="LDAM scale"
    )
    """Factor on the cosines; left empty, it follows from the number of classes (10 to 30)."""
    init: Literal["random", "class_means"] = Field(default="random", title="LDAM: initial weights")
    """Initial weights: random directions, or the mean direction of each class's rows."""

    @property
    def is_marginless(self) -> bool:
        """Whether its margin is 0."""
        return self.max_margin == 0

    @property
    def favours_rare(self) -> bool:
        """Whether its margins, which are larger for rarer classes, are any."""
        return self.max_margin > 0

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
        """The logits [N, C+] = scale cos, with its class's margin on each row's own [N] class; counts [C+]."""
        margins = class_margins(self.max_margin, counts, 0.25, logits)[own]
        return with_own_changed(logits, own, -number(scale, logits) * margins)
