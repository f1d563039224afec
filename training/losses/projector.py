"""Projections of the classifier's input for contrastive losses."""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import nn

from frostbench.heads.bodies.dense import linear_layer
from frostbench.heads.spec import Spec


class NoProjector(Spec):
    """No projection: the classifier's input is compared as it is."""

    kind: Literal["none"] = "none"

    def build(self, width: int, generator: torch.Generator) -> nn.Module:
        """Build the identity."""
        return nn.Identity()


class MlpProjector(Spec):
    """A projection (Linear, GELU, Linear) that is trained with the head and then discarded."""

    kind: Literal["mlp"] = "mlp"
    hidden: int = Field(default=512, ge=1, le=16384, title="Hidden width of the projector")
    """Width of the projector's hidden layer."""
    width: int = Field(default=128, ge=1, le=16384, title="Output width of the projector")
    """Width of the projection."""

    def build(self, width: int, generator: torch.Generator) -> nn.Module:
        """Build the projector for vectors of this width, with random weights from generator."""
        first = linear_layer(width, self.hidden, generator)
        return nn.Sequential(first, nn.GELU(), linear_layer(self.hidden, self.width, generator))


ProjectorSpec = Annotated[NoProjector | MlpProjector, Field(discriminator="kind")]
