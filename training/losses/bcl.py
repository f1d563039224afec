"""Balanced contrastive loss, a term over a batch."""

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
"""Largest number of classes allowed: every batch compares its rows with a prototype of each class."""


class Bcl(LossMethod):
    """Supervised contrastive loss that weights all classes equally and adds one prototype per class.

    Zhu et al., "Balanced contrastive learning for long-tailed visual recognition", CVPR 2022 (class averaging
    and class complement). Prototypes are computed from the classifier's weights. The paper adds the term to cross
    entropy with logit adjustment of tau 1 on a cosine classifier. A row that is the only one of its class in a batch
    has the prototype as its positive.
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
            "bcl uses the first centre of each class as its prototype and ignores the others: set "
            "head.classifier.centers=1",
        ),
    )
    kind: Literal["bcl"] = "bcl"
    weight: float = Field(default=0.0, ge=0, le=100, json_schema_extra=SWEPT, title="BCL weight")
    """Coefficient of the term added to the mean point loss; 0 omits it, and the paper uses 0.35."""
    temperature: float = Field(default=0.1, ge=0.01, le=10, json_schema_extra=SWEPT, title="BCL temperature")
    """Divisor of the cosine similarities; lower values focus on the nearest rows."""
    projector: ProjectorSpec = Field(default=MlpProjector(), title="BCL projector")
    """Vectors to compare: classifier inputs and weights (none), or a projection of each (mlp)."""

    @property
    def needs(self) -> frozenset[Need]:
        """Unmixed rows, because each row needs a single class."""
        return frozenset({"unmixed"})

    def check_classes(self, classes: int) -> None:
        """Check that a batch can hold a prototype of every class.

        Raises:
            ValueError: there are too many classes.
        """
        if self.weight > 0 and classes > MOST_PROTOTYPES:
            raise ValueError(
                f"bcl allows at most {MOST_PROTOTYPES} classes, because every batch holds a prototype of each, got "
                f"{classes} classes with training rows. Set train.loss.bcl.weight=0, or use another contrastive loss."
            )

    def batch_numbers(self, batch: int, classes: int) -> int:
        """Return the number of similarities per row: with the rows of its batch and with the prototypes."""
        return batch + classes if self.weight > 0 else 0

    def part(self, core: Core, classes: int, generator: torch.Generator) -> "BclPart | None":
        """Build the projectors of rows and of classifier weights."""
        if self.weight == 0:
            return None
        return BclPart([self.projector.build(core.width, generator) for _ in range(2)])

    def __call__(self, x: Tensor, labels: Tensor, prototypes: Tensor) -> Tensor:
        """Return the term, a scalar, for vectors x [N, P], labels [N] and prototypes [C, P]."""
        return self.per_anchor(x, labels, prototypes).mean()

    def per_anchor(self, x: Tensor, labels: Tensor, prototypes: Tensor) -> Tensor:
        """Return the loss [N] of each row."""
        anchors = normalize(x, dim=1)
        similarity = anchors @ torch.cat([anchors, normalize(prototypes, dim=1)]).T / self.temperature
        classes = torch.arange(len(prototypes), device=labels.device)
        owners = torch.cat([labels, classes])
        same = labels[:, None] == owners
        is_self = torch.eye(len(labels), len(owners), dtype=torch.bool, device=labels.device)
        # Size of each column's class, prototype included, without the anchor itself.
        sizes = (owners[:, None] == owners).sum(1) - same.long()
        log_sum = (similarity - sizes.to(x.dtype).log()).masked_fill(is_self, -torch.inf).logsumexp(1)
        positive = same & ~is_self
        return log_sum - (similarity * positive).sum(1) / positive.sum(1)


class BclPart(LossPart[Bcl]):
    """Balanced contrastive term of one head, with its projectors of the rows and of the classifier's weights."""

    def __init__(self, projectors: list[nn.Module]) -> None:
        super().__init__()
        self.projectors = nn.ModuleList(projectors)

    def effect(self, method: Bcl, step: StepContext) -> Effect:
        """Add the term."""

        def term() -> Tensor:
            of_rows, of_classes = self.projectors
            prototypes = of_classes(step.class_weights())
            return method.weight * method(of_rows(step.unmixed), step.label_index, prototypes)

        return Effect(term=term)
