"""Cross entropy."""

from typing import Literal

from torch import Tensor

from frostbench.training.losses.method import LossMethod
from frostbench.training.losses.scores import Scores, Targets


class CrossEntropy(LossMethod):
    """Softmax cross entropy of each sample."""

    kind: Literal["cross_entropy"] = "cross_entropy"

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Return the loss [N] of scores [N, C] against targets."""
        return -targets.mean(scores.log_p)
