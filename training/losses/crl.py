"""CRL: confidences in the order in which rows were learnt; a term over a whole batch."""

from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor

from frostbench.heads.spec import SWEPT, Spec, Tier


class Crl(Spec):
    """Rank the confidences of neighbours in a batch as the shares of passes in which they were predicted rightly.

    Moon et al., "Confidence-aware learning for deep neural networks", ICML 2020, eq. 5. For each pair of a row and the
    next in the batch it is max(0, |c_i - c_j| - sign(c_i - c_j) (k_i - k_j)), with k the largest probability and c the
    share of times that the row was right when it was trained on; 0 where the shares are equal. The official code
    stretches the shares so that the least is 0; here they are as in the paper.
    """

    tier: ClassVar[Tier] = "experimental"
    kind: Literal["crl"] = "crl"
    weight: float = Field(default=0.0, ge=0, le=100, json_schema_extra=SWEPT)
    """Coefficient of the term beside the mean of the point loss; 0 leaves it out and the paper has 1."""

    def __call__(self, logits: Tensor, history: Tensor) -> Tensor:
        """The term, a scalar, for logits [N, C+] and shares of right predictions [N] from before the step."""
        sure = logits.softmax(-1).amax(-1)
        apart = history - history.roll(-1)
        return (apart.abs() - apart.sign() * (sure - sure.roll(-1))).clamp(min=0).mul(apart != 0).mean()


def right(logits: Tensor, own: Tensor) -> Tensor:
    """Which rows of logits [N, C+] are predicted as their own class [N], as numbers [N].

    >>> import torch
    >>> right(torch.tensor([[0.0, 1], [0, 1]]), torch.tensor([1, 0]))
    tensor([1., 0.])
    """
    return (logits.argmax(-1) == own).to(logits.dtype)
