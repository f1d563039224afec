"""Balanced contrastive loss, a term over a whole batch."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import normalize

from frostbench.heads.head import Core
from frostbench.heads.spec import SWEPT, Tier
from frostbench.training.losses.method import LossMethod, LossPart, Need
from frostbench.training.losses.projector import MlpProjector, ProjectorSpec
from frostbench.training.losses.shared_rules import shapes_layers
from frostbench.training.losses.step import Effect, StepContext
from frostbench.training.rule import Rule

MOST_PROTOTYPES = 2000
"""Classes up to which it is allowed: each has a prototype in every batch, which rows are compared with."""


class Bcl(LossMethod):
    """Supervised contrast in which every class counts alike and has a prototype, made from the classifier's weights.

    Zhu et al., "Balanced contrastive learning for long-tailed visual recognition", CVPR 2022 (class averaging
    and class complement). The paper adds it to cross entropy with logit adjustment of tau 1 on a cosine classifier.
    Rows that are alone of their class in a batch have its prototype as positive.
    """

    tier: ClassVar[Tier] = "experimental"
    group: ClassVar[str] = "Contrast"
    family: ClassVar[str] = "contrast"
    trains: ClassVar[Literal["", "body", "classifier"]] = "body"
    neutral: ClassVar[Mapping[str, float]] = {"weight": 0}
    rules: ClassVar[tuple[Rule, ...]] = (
        *shapes_layers("bcl"),
        Rule(
            "warn",
            lambda run: run.head.classifier.centers_per_class > 1 and run.train.loss.bcl.weight > 0,
            "bcl takes the first of a class's centres as its prototype and leaves the others out: set "
            "head.classifier.centers=1",
        ),
    )
    kind: Literal["bcl"] = "bcl"
    weight: float = Field(default=0.0, ge=0, le=100, json_schema_extra=SWEPT, title="BCL weight")
    """Coefficient of the term beside the mean of the point loss; 0 leaves it out and the paper has 0.35."""
    temperature: float = Field(default=0.1, ge=0.01, le=10, json_schema_extra=SWEPT, title="BCL temperature")
    """Divides the cosine similarities: a lower one presses harder on the nearest rows."""
    projector: ProjectorSpec = Field(default=MlpProjector(), title="BCL projector")
    """Vectors that are compared: classifier inputs and weights (none), or a projection of each (mlp)."""

    @property
    def needs(self) -> frozenset[Need]:
        """Rows of one class each, so unmixed ones."""
        return frozenset({"unmixed"})

    def check_classes(self, classes: int) -> None:
        """Refuse more classes than a batch can hold prototypes of.

        Raises:
            ValueError: there are more.
        """
        if self.weight > 0 and classes > MOST_PROTOTYPES:
            raise ValueError(
                f"bcl has a prototype for each class in every batch, at most {MOST_PROTOTYPES}, however: {classes} "
                "classes have training rows. Use a contrast without prototypes, and set train.loss.bcl.weight=0."
            )

    def batch_numbers(self, batch: int, classes: int) -> int:
        """Similarities of a row with those of its batch and with the prototypes."""
        return batch + classes if self.weight > 0 else 0

    def part(self, core: Core, classes: int, generator: torch.Generator) -> "BclPart | None":
        """Build the projectors of rows and of the classifier's weights."""
        if self.weight == 0:
            return None
        return BclPart([self.projector.build(core.width, generator) for _ in range(2)])

    def __call__(self, x: Tensor, labels: Tensor, prototypes: Tensor) -> Tensor:
        """The term, a scalar, for vectors x [N, P], labels [N] and one prototype [C, P] for each class."""
        return self.per_anchor(x, labels, prototypes).mean()

    def per_anchor(self, x: Tensor, labels: Tensor, prototypes: Tensor) -> Tensor:
        """Loss of each row [N]."""
        anchors = normalize(x, dim=1)
        similarity = anchors @ torch.cat([anchors, normalize(prototypes, dim=1)]).T / self.temperature
        classes = torch.arange(len(prototypes), device=labels.device)
        owners = torch.cat([labels, classes])
        same = labels[:, None] == owners
        itself = torch.eye(len(labels), len(owners), dtype=torch.bool, device=labels.device)
        # Members of each column's class that an anchor is compared with, prototype included and itself not.
        sizes = (owners[:, None] == owners).sum(1) - same.long()
        everything = (similarity - sizes.to(x.dtype).log()).masked_fill(itself, -torch.inf).logsumexp(1)
        positive = same & ~itself
        return everything - (similarity * positive).sum(1) / positive.sum(1)


class BclPart(LossPart[Bcl]):
    """The projectors of the contrast: of rows, and of the classifier's weights."""

    def __init__(self, projectors: list[nn.Module]) -> None:
        super().__init__()
        self.projectors = nn.ModuleList(projectors)

    def effect(self, method: Bcl, step: StepContext) -> Effect:
        """Add the term."""

        def term() -> Tensor:
            of_rows, of_classes = self.projectors
            prototypes = of_classes(step.class_weights())
            return method.weight * method(of_rows(step.unmixed), step.own, prototypes)

        return Effect(term=term)
