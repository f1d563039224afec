"""Centre loss: rows near the centre of their class, centres apart; a term over a whole batch."""

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
    """Draw the classifier's inputs to running centres of their classes, and perhaps push the centres apart.

    Wen et al., "A discriminative feature learning approach for deep face recognition", ECCV 2016, eq. 2 to 4. Centres
    move by the paper's rule and not by gradients, with which centres of rare classes would hardly move. The term acts
    on trainable layers only: in front of a bare classifier there is nothing for it to move.
    """

    tier: ClassVar[Tier] = "experimental"
    group: ClassVar[str] = "Contrast"
    trains: ClassVar[Literal["", "body", "classifier"]] = "body"
    neutral: ClassVar[Mapping[str, float]] = {"weight": 0}
    rules: ClassVar[tuple[Rule, ...]] = shapes_layers("center")
    kind: Literal["center"] = "center"
    weight: float = Field(default=0.0, ge=0, le=100, json_schema_extra=SWEPT, title="Centre loss weight")
    """Coefficient of the term, on distances of a body's outputs or vectors in units; 0 is none, the paper has 0.003."""
    rate: float = Field(default=0.5, gt=0, le=1, json_schema_extra=SWEPT, title="Centre loss: rate of the centres α")
    """Rate at which centres move to the rows of each batch (α of the paper)."""
    repulsion: float = Field(
        default=0.0, ge=0, le=100, json_schema_extra=SWEPT, title="Centre loss: repulsion of the centres"
    )
    """Coefficient, within the term, of the cosines between centres above those of a regular simplex."""
    space: Literal["unit", "plain"] = Field(default="unit", title="Centre loss: unit or plain vectors")
    """Vectors that are drawn: scaled to length 1, or as they are, which shrinking all of them to 0 satisfies."""

    @property
    def needs(self) -> frozenset[Need]:
        """Unmixed rows of one class each, and all of them for the first centres."""
        return frozenset({"unmixed", "all_rows"})

    def part(self, core: Core, classes: int, generator: torch.Generator) -> "CenterPart | None":
        """Build the centres."""
        return None if self.weight == 0 else CenterPart(core.width)

    def start(self, x: Tensor, labels: Tensor, classes: int) -> Tensor:
        """First centres [C, H]: the means of rows x [N, H] with labels [N]; 0 for classes without rows."""
        sums, counts = _sums(self._placed(x), labels, classes)
        return sums / counts.clamp(min=1)[:, None]

    def __call__(self, x: Tensor, labels: Tensor, centers: Tensor) -> Tensor:
        """The term, a scalar, for vectors x [N, H], labels [N] and centres [C, H] from before the step.

        Repulsion is that of the centres after the step, which depend on x.
        """
        attraction = (self._placed(x) - centers[labels]).square().sum(1).mean() / 2
        return attraction + self.repulsion * repulsion(self.moved(x, labels, centers))

    def moved(self, x: Tensor, labels: Tensor, centers: Tensor) -> Tensor:
        """Centres [C, H] after a step whose vectors are x [N, H] (eq. 4); detach them before they are kept."""
        sums, counts = _sums(self._placed(x), labels, len(centers))
        return centers - self.rate * (counts[:, None] * centers - sums) / (1 + counts[:, None])

    def _placed(self, x: Tensor) -> Tensor:
        return unit_rows(x) if self.space == "unit" else x


class CenterPart(LossPart[Center]):
    """The centres.

    Attributes:
        centers: [C+, H].
    """

    centers: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("centers", torch.zeros(0, width))

    def prepare(self, method: Center, setup: Setup) -> None:
        """Take the first centres from the classifier's inputs of all training rows."""
        hidden, own = setup.core.body(setup.rows.x), setup.statistics.position[setup.rows.labels]
        self.centers = method.start(hidden, own, len(setup.statistics.present))

    def effect(self, method: Center, step: StepContext) -> Effect:
        """Add the term, and move the centres."""

        def term() -> Tensor:
            return method.weight * method(step.unmixed, step.own, self.centers)

        def finish() -> tuple[Updates, Logs]:
            return {"centers": method.moved(step.unmixed, step.own, self.centers).detach()}, {}

        return Effect(term=term, finish=finish)


def repulsion(centers: Tensor) -> Tensor:
    """Mean over pairs of centres [C, H] of how far their cosine lies above -1 / (C - 1), a regular simplex's.

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
    """Sum [C, H] of the rows x [N, H] of each class, and their number [C]; a product, for it is the same every time."""
    member = (labels == torch.arange(classes, device=labels.device)[:, None]).to(x.dtype)
    return member @ x, member.sum(1)
