"""Cross entropy."""

from typing import Literal

from torch import Tensor

from heads.spec import Spec


class CrossEntropy(Spec):
    """Softmax cross entropy of each sample."""

    kind: Literal["cross_entropy"] = "cross_entropy"

    def __call__(self, log_p: Tensor, targets: Tensor) -> Tensor:
        """Loss [N] of log-probabilities [N, C] against targets [N, C] whose rows sum to 1."""
        return -(targets * log_p).sum(-1)
