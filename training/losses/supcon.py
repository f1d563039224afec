"""Supervised contrastive loss, a term over a whole batch."""

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
    """Draw the classifier's inputs of one class together and those of different classes apart, within each batch.

    Khosla et al., "Supervised contrastive learning", NeurIPS 2020, eq. 2 (L_out). Rows that are alone of their class
    in a batch have no positive; they are compared with, but the mean is over the others.
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
            "all classes weigh alike, so train.loss.supcon.class_weighted has no effect: choose a "
            "train.loss.class_weight",
        ),
    )
    kind: Literal["supcon"] = "supcon"
    weight: float = Field(default=0.0, ge=0, le=100, json_schema_extra=SWEPT, title="SupCon weight")
    """Coefficient of the term beside the mean of the point loss; 0 leaves it out."""
    temperature: float = Field(default=0.1, ge=0.01, le=10, json_schema_extra=SWEPT, title="SupCon temperature")
    """Divides the cosine similarities: a lower one presses harder on the nearest rows."""
    projector: ProjectorSpec = Field(default=NoProjector(), title="SupCon projector")
    """Vectors that are compared: the classifier's input (none), or a projection of it (mlp)."""
    class_weighted: bool = Field(default=False, title="SupCon: weigh rows by class")
    """Whether rows count by the weight of their class, as they do in the point loss, or all alike."""

    @property
    def needs(self) -> frozenset[Need]:
        """Rows of one class each, so unmixed ones."""
        return frozenset({"unmixed"})

    def batch_numbers(self, batch: int, classes: int) -> int:
        """Similarities of a row with those of its batch."""
        return batch if self.weight > 0 else 0

    def part(self, core: Core, classes: int, generator: torch.Generator) -> "SupConPart | None":
        """Build the projector."""
        return None if self.weight == 0 else SupConPart(self.projector.build(core.width, generator))

    def __call__(self, x: Tensor, labels: Tensor, class_weight: Tensor) -> Tensor:
        """The term, a scalar, for vectors x [N, P], labels [N] and the weight [C] of each class.

        It is 0 where no row has a positive.
        """
        each, has_positive = self.per_anchor(x, labels)
        share = has_positive.to(each.dtype)
        if self.class_weighted:
            share = share * class_weight.to(each.dtype)[labels]
        total = share.sum()
        return (share * each).sum() / torch.where(total > 0, total, 1)

    def per_anchor(self, x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Loss of each row [N], 0 where it has no positive, and which rows have one [N] bool."""
        h = normalize(x, dim=1)
        itself = torch.eye(len(h), dtype=torch.bool, device=h.device)
        positive = (labels[:, None] == labels) & ~itself
        has_positive = positive.any(1)
        similarity = h @ h.T / self.temperature
        # A row without a positive is compared with itself too, for in a batch of one there is nothing else, and the
        # log of an empty sum has no gradient. Its loss is not used.
        everything = similarity.masked_fill(itself & has_positive[:, None], -torch.inf).logsumexp(1)
        mean_positive = (similarity * positive).sum(1) / positive.sum(1).clamp(min=1)
        return torch.where(has_positive, everything - mean_positive, 0), has_positive


class SupConPart(LossPart[SupCon]):
    """The projector of the contrast."""

    def __init__(self, projector: nn.Module) -> None:
        super().__init__()
        self.projector = projector

    def effect(self, method: SupCon, step: StepContext) -> Effect:
        """Add the term."""

        def term() -> Tensor:
            return method.weight * method(self.projector(step.unmixed), step.own, step.statistics.weight)

        return Effect(term=term)
