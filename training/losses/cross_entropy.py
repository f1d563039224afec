"""Cross entropy."""

from typing import Literal

from torch import Tensor

from heads.spec import Spec
from training.losses.scores import Scores


class CrossEntropy(Spec):
    """Softmax cross entropy of each sample."""

    kind: Literal["cross_entropy"] = "cross_entropy"

    def __call__(self, scores: Scores, targets: Tensor) -> Tensor:
        """Loss [N] of scores [N, C] against targets [N, C] whose rows sum to 1."""
        return -(targets * scores.log_p).sum(-1)
