"""What cosine classifiers with a margin share: their layer, where its weights start, and the bound on their logits."""

from typing import TYPE_CHECKING, ClassVar, Literal

import torch

from frostbench.heads.classifier import Classifier
from frostbench.heads.fitting_rows import Rows
from frostbench.heads.stepped.cosine import CosineLayer, random_layer, start_at_means
from frostbench.heads.stepped.scale import WIDEST_SCALE


class MarginClassifier(Classifier):
    """A cosine classifier that in training sets the own class a margin; a kind has the fields `scale` and `init`."""

    is_cosine: ClassVar[bool] = True
    sets_margin: ClassVar[bool] = True

    # Each kind declares them, with its own default and title, in its own order.
    if TYPE_CHECKING:
        scale: float | None
        init: Literal["random", "class_means"]

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
        return random_layer(dim, classes, self.scale, generator, self.centers_per_class)

    def start(self, layer: CosineLayer, rows: Rows, generator: torch.Generator) -> None:
        """Move the layer's weights to where init says."""
        if self.init == "class_means":
            start_at_means(layer, rows, generator)
