"""The linear classifier, trained by gradient steps."""

from typing import Literal

import torch

from frostbench.heads.bodies.dense import Dense, linear_layer
from frostbench.heads.spec import Spec


class Linear(Spec):
    """Logits are W x + b, trained by gradient steps."""

    kind: Literal["linear"] = "linear"

    def build(self, dim: int, classes: int, generator: torch.Generator) -> Dense:
        """The layer from width dim to the logits of that many classes, initialised from generator."""
        return linear_layer(dim, classes, generator)
