"""Projections of the classifier's input that a contrast compares."""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import nn

from frostbench.heads.bodies.dense import linear_layer
from frostbench.heads.spec import Spec


class NoProjector(Spec):
    """Compare the classifier's input itself."""

    kind: Literal["none"] = "none"

    def build(self, width: int, generator: torch.Generator) -> nn.Module:
        """The identity."""
        return nn.Identity()


class MlpProjector(Spec):
    """Compare a projection: Linear, GELU, Linear. It is trained with the head and thrown away."""

    kind: Literal["mlp"] = "mlp"
    hidden: int = Field(default=512, ge=1, le=16384, title="Hidden width of the projector")
    """Width of the projector's hidden layer."""
    width: int = Field(default=128, ge=1, le=16384, title="Output width of the projector")
    """Width of the projection that is compared."""

    def build(self, width: int, generator: torch.Generator) -> nn.Module:
        """The projector for vectors of that width, initialised from generator."""
        first = linear_layer(width, self.hidden, generator)
        return nn.Sequential(first, nn.GELU(), linear_layer(self.hidden, self.width, generator))


ProjectorSpec = Annotated[NoProjector | MlpProjector, Field(discriminator="kind")]
