"""CRL: confidences ranked by how often rows were predicted correctly; a term over a batch."""

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
    """Rank the confidences of neighbouring rows in a batch by their shares of correct predictions so far.

    Moon et al., "Confidence-aware learning for deep neural networks", ICML 2020, eq. 5. For each row and the next one
    in the batch, the term is max(0, |c_i - c_j| - sign(c_i - c_j) (k_i - k_j)), where k is the largest probability and
    c the share of training visits in which the row was predicted correctly; pairs of equal shares add 0. The official
    code rescales the shares so that the smallest is 0; here they are as in the paper.
    """

    tier: ClassVar[Tier] = "experimental"
    group: ClassVar[str] = "Confidence"
    neutral: ClassVar[Mapping[str, float]] = {"weight": 0}
    needs_single_labels: ClassVar[str] = "crl counts how often each row is predicted correctly"
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "no effect",
            lambda run: run.train.loss.crl.weight > 0 and run.is_solved,
            "closed-form classifiers such as logreg have no batches, so train.loss.crl has no effect on them: set its "
            "weight to 0",
        ),
    )
    kind: Literal["crl"] = "crl"
    weight: float = Field(default=0.0, ge=0, le=100, json_schema_extra=SWEPT, title="CRL weight")
    """Coefficient of the term added to the mean point loss; 0 omits it, and the paper uses 1."""

    def part(self, core: Core, classes: int, generator: torch.Generator) -> "CrlPart | None":
        """Build the part that keeps the histories."""
        return None if self.weight == 0 else CrlPart()

    def __call__(self, logits: Tensor, history: Tensor) -> Tensor:
        """Return the term, a scalar, for logits [N, C+] and shares of correct predictions [N] before the step."""
        confidence = logits.softmax(-1).amax(-1)
        gap = history - history.roll(-1)
        return (gap.abs() - gap.sign() * (confidence - confidence.roll(-1))).clamp(min=0).mul(gap != 0).mean()


class CrlPart(LossPart[Crl]):
    """State of CRL for one head: prediction histories of the training rows.

    Attributes:
        rights: [R] number of correct predictions of each training row.
        visits: [R] number of steps that contained the row.
    """

    row_buffers: ClassVar[Mapping[str, Literal["set", "add"]]] = {"rights": "add", "visits": "add"}
    rights: Tensor
    visits: Tensor

    def effect(self, method: Crl, step: StepContext) -> Effect:
        """Add the term and count the correct predictions of the step."""
        logits = step.present_logits()

        def term() -> Tensor:
            history = self.rights[step.index] / self.visits[step.index].clamp(min=1)
            return method.weight * method(logits, history)

        def finish() -> tuple[Updates, Logs]:
            hits = right(logits.detach(), step.label_index)
            return {"rights": hits, "visits": torch.ones_like(hits)}, {}

        return Effect(term=term, finish=finish)


def right(logits: Tensor, label_index: Tensor) -> Tensor:
    """Return 1 for each row of logits [N, C+] whose argmax is its label and 0 for the others, as floats [N].

    >>> right(torch.tensor([[0.0, 1], [0, 1]]), torch.tensor([1, 0]))
    tensor([1., 0.])
    """
    return (logits.argmax(-1) == label_index).to(logits.dtype)
