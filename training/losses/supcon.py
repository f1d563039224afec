"""Supervised contrastive loss, a term over a batch."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import normalize

from frostbench.heads.head import Core
from frostbench.heads.spec import SWEPT
from frostbench.training.losses.method import LossMethod, LossPart, Need
from frostbench.training.losses.projector import NoProjector, ProjectorSpec
from frostbench.training.losses.shared_rules import shapes_layers
from frostbench.training.losses.step import Effect, StepContext
from frostbench.training.rule import Rule


class SupCon(LossMethod):
    """Pull classifier inputs of one class together and push those of different classes apart, within each batch.

    Khosla et al., "Supervised contrastive learning", NeurIPS 2020, eq. 2 (L_out). A row that is the only one of its
    class in a batch has no positive; it is a negative for other rows, but does not count in the mean.
    """

    group: ClassVar[str] = "Contrast"
    family: ClassVar[str] = "contrast"
    trains: ClassVar[Literal["", "body", "classifier"]] = "body"
    neutral: ClassVar[Mapping[str, float]] = {"weight": 0}
    rules: ClassVar[tuple[Rule, ...]] = (
        *shapes_layers("supcon"),
        Rule(
            "no effect",
            lambda run: (
                run.train.loss.supcon.weight > 0 and run.train.loss.supcon.class_weighted and not run.is_weighted
            ),
            "all classes have equal weight, so train.loss.supcon.class_weighted has no effect: choose a "
            "train.loss.class_weight",
        ),
    )
    kind: Literal["supcon"] = "supcon"
    weight: float = Field(default=0.0, ge=0, le=100, json_schema_extra=SWEPT, title="SupCon weight")
    """Coefficient of the term added to the mean point loss; 0 omits it."""
    temperature: float = Field(default=0.1, ge=0.01, le=10, json_schema_extra=SWEPT, title="SupCon temperature")
    """Divisor of the cosine similarities; lower values focus on the nearest rows."""
    projector: ProjectorSpec = Field(default=NoProjector(), title="SupCon projector")
    """Vectors to compare: the classifier's input (none), or a projection of it (mlp)."""
    class_weighted: bool = Field(default=False, title="SupCon: weight rows by class")
    """Whether rows are weighted by class, as in the point loss, or equally."""

    @property
    def needs(self) -> frozenset[Need]:
        """Unmixed rows, because each row needs a single class."""
        return frozenset({"unmixed"})

    def batch_numbers(self, batch: int, classes: int) -> int:
        """Return the number of similarities per row, one for each row of its batch."""
        return batch if self.weight > 0 else 0

    def part(self, core: Core, classes: int, generator: torch.Generator) -> "SupConPart | None":
        """Build the projector."""
        return None if self.weight == 0 else SupConPart(self.projector.build(core.width, generator))

    def __call__(self, x: Tensor, labels: Tensor, class_weight: Tensor) -> Tensor:
        """Return the term for vectors x [N, P], labels [N] and class weights [C]; 0 if no row has a positive."""
        loss, has_positive = self.per_anchor(x, labels)
        weight = has_positive.to(loss.dtype)
        if self.class_weighted:
            weight = weight * class_weight.to(loss.dtype)[labels]
        total = weight.sum()
        return (weight * loss).sum() / torch.where(total > 0, total, 1)

    def per_anchor(self, x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss [N] of each row, 0 for rows without a positive, and a mask [N] of rows with one."""
        h = normalize(x, dim=1)
        is_self = torch.eye(len(h), dtype=torch.bool, device=h.device)
        positive = (labels[:, None] == labels) & ~is_self
        has_positive = positive.any(1)
        similarity = h @ h.T / self.temperature
        # A row without a positive keeps itself in the sum: in a batch of one the sum would otherwise be empty, and its
        # log has no gradient. The loss of such a row is not used.
        log_sum = similarity.masked_fill(is_self & has_positive[:, None], -torch.inf).logsumexp(1)
        mean_positive = (similarity * positive).sum(1) / positive.sum(1).clamp(min=1)
        return torch.where(has_positive, log_sum - mean_positive, 0), has_positive


class SupConPart(LossPart[SupCon]):
    """Supervised contrastive term of one head, with the projector applied to the vectors that it compares."""

    def __init__(self, projector: nn.Module) -> None:
        super().__init__()
        self.projector = projector

    def effect(self, method: SupCon, step: StepContext) -> Effect:
        """Add the term."""

        def term() -> Tensor:
            return method.weight * method(self.projector(step.unmixed), step.label_index, step.statistics.weight)

        return Effect(term=term)
