"""The Brier score as a loss."""

from typing import ClassVar, Literal

from torch import Tensor

from frostbench.heads.spec import Tier
from frostbench.training.losses.method import LossMethod
from frostbench.training.losses.scores import Scores, Targets


class Brier(LossMethod):
    """Squared distance between the predicted probabilities and the targets, summed over the classes.

    Brier, "Verification of forecasts expressed in terms of probability", Monthly Weather Review 1950. It lies between
    0 and 2, and its gradient vanishes for predictions that are confident and wrong. For mixed rows it is the mixture
    of both labels' scores, which differs from the distance to the mixed target by a constant.
    """

    tier: ClassVar[Tier] = "experimental"
    kind: Literal["brier"] = "brier"

    @property
    def is_convex(self) -> bool:
        """Whether the loss is convex in the logits; it is not."""
        return False

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Return the loss [N] of scores [N, C+] against targets."""
        return (scores.log_p.exp() - targets.dense(scores.log_p)).square().sum(-1)
