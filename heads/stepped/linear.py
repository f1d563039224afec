"""The linear classifier, trained with gradient steps."""

from typing import ClassVar, Literal

import torch

from frostbench.heads.bodies.dense import Dense, linear_layer
from frostbench.heads.classifier import Classifier


class Linear(Classifier):
    """Logits are W x + b, trained with gradient steps."""

    is_linear: ClassVar[bool] = True
    kind: Literal["linear"] = "linear"

    def build(self, dim: int, classes: int, generator: torch.Generator) -> Dense:
        """Build the layer with `dim` inputs and `classes` outputs, initialised from generator."""
        return linear_layer(dim, classes, generator)
