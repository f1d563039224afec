"""Centre loss: rows close to the centre of their class and, optionally, centres far apart; a term over a batch."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.head import Core
from frostbench.heads.spec import SWEPT, Tier
from frostbench.heads.stepped.cosine import unit_rows
from frostbench.training.losses.method import LossMethod, LossPart, Need, Setup
from frostbench.training.losses.shared_rules import shapes_layers
from frostbench.training.losses.step import Effect, Logs, StepContext, Updates
from frostbench.training.rule import Rule


class Center(LossMethod):
    """Pull the classifier's inputs to running centres of their classes and, optionally, push the centres apart.

    Wen et al., "A discriminative feature learning approach for deep face recognition", ECCV 2016, eq. 2 to 4. Centres
    follow the paper's update rule, not gradients, under which centres of rare classes would hardly move. The term acts
    only on trainable layers in front of the classifier, so a head without a body gives it nothing to train.
    """

    tier: ClassVar[Tier] = "experimental"
    group: ClassVar[str] = "Contrast"
    trains: ClassVar[Literal["", "body", "classifier"]] = "body"
    neutral: ClassVar[Mapping[str, float]] = {"weight": 0}
    rules: ClassVar[tuple[Rule, ...]] = shapes_layers("center")
    kind: Literal["center"] = "center"
    weight: float = Field(default=0.0, ge=0, le=100, json_schema_extra=SWEPT, title="Centre loss weight")
    """Coefficient of the term, whose distances are between body outputs; 0 omits it, and the paper uses 0.003."""
    rate: float = Field(default=0.5, gt=0, le=1, json_schema_extra=SWEPT, title="Centre loss: rate of the centres α")
    """Rate at which centres move to the rows of each batch (α in the paper)."""
    repulsion: float = Field(
        default=0.0, ge=0, le=100, json_schema_extra=SWEPT, title="Centre loss: repulsion of the centres"
    )
    """Coefficient, within the term, of the excess of cosines between centres over those of a regular simplex."""
    space: Literal["unit", "plain"] = Field(default="unit", title="Centre loss: unit or plain vectors")
    """Vectors to pull: scaled to length 1 (unit), or unscaled (plain), where shrinking them also lowers the term."""

    @property
    def needs(self) -> frozenset[Need]:
        """Unmixed rows, and all training rows at once for the initial centres."""
        return frozenset({"unmixed", "all_rows"})

    def part(self, core: Core, classes: int, generator: torch.Generator) -> "CenterPart | None":
        """Build the centres."""
        return None if self.weight == 0 else CenterPart(core.width)

    def start(self, x: Tensor, labels: Tensor, classes: int) -> Tensor:
        """Return the initial centres [C, H]: class means of x [N, H] with labels [N], 0 for classes without rows."""
        sums, counts = _sums(self._scaled(x), labels, classes)
        return sums / counts.clamp(min=1)[:, None]

    def __call__(self, x: Tensor, labels: Tensor, centers: Tensor) -> Tensor:
        """Return the term, a scalar, for vectors x [N, H], labels [N] and centres [C, H] before the step.

        The repulsion is computed from the centres after the step, which depend on x.
        """
        attraction = (self._scaled(x) - centers[labels]).square().sum(1).mean() / 2
        return attraction + self.repulsion * repulsion(self.updated(x, labels, centers))

    def updated(self, x: Tensor, labels: Tensor, centers: Tensor) -> Tensor:
        """Return the centres [C, H] after a step on vectors x [N, H] (eq. 4), attached to the graph."""
        sums, counts = _sums(self._scaled(x), labels, len(centers))
        return centers - self.rate * (counts[:, None] * centers - sums) / (1 + counts[:, None])

    def _scaled(self, x: Tensor) -> Tensor:
        return unit_rows(x) if self.space == "unit" else x


class CenterPart(LossPart[Center]):
    """State of the centre loss for one head: running class centres.

    Attributes:
        centers: [C+, H].
    """

    centers: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("centers", torch.zeros(0, width))

    def prepare(self, method: Center, setup: Setup) -> None:
        """Compute the initial centres from the classifier's inputs of all training rows."""
        hidden, label_index = setup.core.body(setup.rows.x), setup.statistics.position[setup.rows.labels]
        self.centers = method.start(hidden, label_index, len(setup.statistics.present))

    def effect(self, method: Center, step: StepContext) -> Effect:
        """Add the term and update the centres."""

        def term() -> Tensor:
            return method.weight * method(step.unmixed, step.label_index, self.centers)

        def finish() -> tuple[Updates, Logs]:
            return {"centers": method.updated(step.unmixed, step.label_index, self.centers).detach()}, {}

        return Effect(term=term, finish=finish)


def repulsion(centers: Tensor) -> Tensor:
    """Return the mean excess of the cosines between centres [C, H] over -1 / (C - 1), that of a regular simplex.

    >>> repulsion(torch.tensor([[1.0, 0], [-3, 0]])).item(), repulsion(torch.tensor([[1.0, 0], [0, 2]])).item()
    (0.0, 1.0)
    """
    classes = len(centers)
    if classes < 2:
        return centers.new_zeros(())
    unit = unit_rows(centers)
    above = (unit @ unit.T + 1 / (classes - 1)).clamp(min=0)
    pairs = ~torch.eye(classes, dtype=torch.bool, device=centers.device)
    return (above * pairs).sum() / (classes * (classes - 1))


def _sums(x: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Return class sums [C, H] of x [N, H] and class counts [C], by a matrix product, which is deterministic."""
    member = (labels == torch.arange(classes, device=labels.device)[:, None]).to(x.dtype)
    return member @ x, member.sum(1)
