"""CRL: confidences in the order in which rows were learnt; a term over a whole batch."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.head import Core
from frostbench.heads.spec import SWEPT, Tier
from frostbench.training.losses.method import LossMethod, LossPart
from frostbench.training.losses.step import Effect, Logs, StepContext, Updates
from frostbench.training.rule import Rule


class Crl(LossMethod):
    """Rank the confidences of neighbours in a batch as the shares of passes in which they were predicted rightly.

    Moon et al., "Confidence-aware learning for deep neural networks", ICML 2020, eq. 5. For each pair of a row and the
    next in the batch it is max(0, |c_i - c_j| - sign(c_i - c_j) (k_i - k_j)), with k the largest probability and c the
    share of times that the row was right when it was trained on; 0 where the shares are equal. The official code
    stretches the shares so that the least is 0; here they are as in the paper.
    """

    tier: ClassVar[Tier] = "experimental"
    group: ClassVar[str] = "Confidence"
    neutral: ClassVar[Mapping[str, float]] = {"weight": 0}
    needs_single_labels: ClassVar[str] = "crl counts how often each row is predicted correctly"
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "no effect",
            lambda run: run.train.loss.crl.weight > 0 and run.is_solved,
            "a solved classifier such as logreg has no batches, so train.loss.crl has no effect on it: set its weight "
            "to 0",
        ),
    )
    kind: Literal["crl"] = "crl"
    weight: float = Field(default=0.0, ge=0, le=100, json_schema_extra=SWEPT, title="CRL weight")
    """Coefficient of the term beside the mean of the point loss; 0 leaves it out and the paper has 1."""

    def part(self, core: Core, classes: int, generator: torch.Generator) -> "CrlPart | None":
        """Build the histories."""
        return None if self.weight == 0 else CrlPart()

    def __call__(self, logits: Tensor, history: Tensor) -> Tensor:
        """The term, a scalar, for logits [N, C+] and shares of right predictions [N] from before the step."""
        sure = logits.softmax(-1).amax(-1)
        apart = history - history.roll(-1)
        return (apart.abs() - apart.sign() * (sure - sure.roll(-1))).clamp(min=0).mul(apart != 0).mean()


class CrlPart(LossPart[Crl]):
    """The histories of the training rows.

    Attributes:
        rights: [R] how often each training row was predicted rightly.
        visits: [R] how often it was seen.
    """

    row_buffers: ClassVar[Mapping[str, Literal["set", "add"]]] = {"rights": "add", "visits": "add"}
    rights: Tensor
    visits: Tensor

    def effect(self, method: Crl, step: StepContext) -> Effect:
        """Add the term, and count the step's predictions."""
        logits = step.present_logits()

        def term() -> Tensor:
            history = self.rights[step.index] / self.visits[step.index].clamp(min=1)
            return method.weight * method(logits, history)

        def finish() -> tuple[Updates, Logs]:
            hits = right(logits.detach(), step.own)
            return {"rights": hits, "visits": torch.ones_like(hits)}, {}

        return Effect(term=term, finish=finish)


def right(logits: Tensor, own: Tensor) -> Tensor:
    """Which rows of logits [N, C+] are predicted as their own class [N], as numbers [N].

    >>> right(torch.tensor([[0.0, 1], [0, 1]]), torch.tensor([1, 0]))
    tensor([1., 0.])
    """
    return (logits.argmax(-1) == own).to(logits.dtype)
