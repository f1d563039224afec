"""LWS: a learned factor per class logit, trained on balanced classes."""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from frostbench.heads.bodies.body import Pass
from frostbench.heads.head import Core, Head, linear_of
from frostbench.heads.spec import Tier
from frostbench.training.second_stage.stepped import Passes, Rate, SteppedStage
from frostbench.training.spec.optim import AdamW


class Lws(SteppedStage):
    """Learn one factor per class logit on balanced classes, with everything else frozen.

    Kang et al., ICLR 2020, section 4.3 (learnable weight scaling). The factors are positive, start at 1 and multiply
    W x + b; they are then folded into the classifier. Optimiser and schedule are as in section 4.1.
    """

    tier: ClassVar[Tier] = "experimental"
    rescales_rows: ClassVar[bool] = True
    kind: Literal["lws"] = "lws"
    epochs: Passes = Field(default=5, title="Second stage: epochs")
    """Number of epochs of the second stage; the minimum of steps may raise it."""
    lr: Rate = Field(default=1e-2, title="Second stage: learning rate")
    """Peak learning rate of the factors' logarithms."""

    @property
    def optim(self) -> AdamW:
        """The optimiser of the factors, without weight decay."""
        return AdamW(lr=self.lr, weight_decay=0)

    def front(self, head: Head) -> nn.Module:
        """Return the body and the classifier of a head as one module."""
        return nn.Sequential(head.body, head.classifier)

    def core(self, head: Head, classes: int) -> Core:
        """Build the factors."""
        return Core(Pass(classes), Scaled(classes))

    @torch.no_grad()
    def fold(self, head: Head, core: Core) -> None:
        """Fold the factors into the linear classifier of a head."""
        linear, scaled = linear_of(head.classifier), core.classifier
        if not isinstance(scaled, Scaled):
            raise TypeError(
                f"the core to fold must hold class factors, got {type(scaled).__name__}. Pass the core of this stage."
            )
        factors = scaled.log_scale.exp()
        linear.weight.mul_(factors[:, None])
        linear.bias.mul_(factors)

    def width(self, hidden: int, classes: int) -> int:
        """Return the number of logits."""
        return classes


class Scaled(nn.Module):
    """Logits multiplied by a positive factor per class.

    Shapes: z [N, C] -> [N, C]
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(classes))

    def forward(self, z: Tensor) -> Tensor:
        """Return the scaled logits."""
        return z * self.log_scale.exp()
