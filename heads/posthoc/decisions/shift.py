"""A shift of single classes, by hand or for a wanted recall or precision."""

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.spec import Spec

ClassName = Annotated[str, Field(min_length=1, max_length=1000)]
Target = Annotated[float, Field(gt=0, le=1)]
Logit = Annotated[float, Field(ge=-50, le=50)]
NUDGE = 1e-3
"""How far beyond the last row that has to change a shift goes, where the next row is farther."""
ROUNDS = 200


class NoShift(Spec):
    """Favour no class."""

    kind: Literal["none"] = "none"


class GivenShift(Spec):
    """Add stated numbers to the log-probabilities of some classes before the largest is taken."""

    tier = "experimental"

    kind: Literal["given"] = "given"
    logits: dict[ClassName, Logit] = Field(
        default_factory=dict, max_length=100_000, title="Decision shift: logits by class"
    )
    """Logit added to each class by name, above 0 to predict it more often; classes that are not named get 0."""


class WantedShift(Spec):
    """Find the least shifts with which named classes have a wanted recall or precision on the calibration rows."""

    tier = "experimental"

    kind: Literal["wanted"] = "wanted"
    metric: Literal["recall", "precision"] = Field(default="recall", title="Decision shift: metric")
    """Metric of the targets; recall can always be bought for one class, precision often cannot."""
    targets: dict[ClassName, Target] = Field(
        default_factory=dict, max_length=1000, title="Decision shift: targets by class"
    )
    """Least value for each class by name; a class that has it already is not shifted."""

    def fit(self, scores: Tensor, labels: Tensor, weight: Tensor, names: Sequence[str]) -> Tensor:
        """Shifts [C] float64 for scores [N, C], such as log-probabilities less log thresholds.

        Classes take turns until all have their value.

        Raises:
            ValueError: a named class has no rows, or no shift gives all of them their value; the message says the best.
        """
        exact = scores.double()
        shift = torch.zeros(scores.shape[1], dtype=torch.float64)
        for _ in range(ROUNDS):
            before = shift.clone()
            for name, target in self.targets.items():
                own = names.index(name)
                shift[own] += self._needed(name, target, exact + shift, labels, weight, own)
            if torch.equal(before, shift):
                return shift
        raise ValueError(
            f"a shift gives each named class its {self.metric}, however: {len(self.targets)} classes take rows from "
            "each other without end. Lower posthoc.shift.targets, or name fewer classes."
        )

    def _needed(self, name: str, target: float, scores: Tensor, labels: Tensor, weight: Tensor, own: int) -> float:
        """The change of a class's shift that is nearest to 0 and reaches its target."""
        if not (labels == own).any():
            raise ValueError(
                f"the {self.metric} of a class is measured on its calibration rows, however: class {name!r} has none. "
                "Take it out of posthoc.shift.targets, or give it rows in the split."
            )
        places, values = _cuts(scores, labels, weight, own, self.metric)
        reached = values >= target - 1e-9
        if not reached.any():
            raise ValueError(
                f"a shift must reach the {self.metric} that is wanted, however: {target:g} came for class {name!r} and "
                f"the best is {float(values.max()):.4f} on its calibration rows. Lower posthoc.shift.targets."
            )
        return float(places[reached][places[reached].abs().argmin()])


def _cuts(scores: Tensor, labels: Tensor, weight: Tensor, own: int, metric: str) -> tuple[Tensor, Tensor]:
    """Every change of a class's shift that makes a difference, and the metric with each; first no change at all."""
    others = scores.clone()
    others[:, own] = -torch.inf
    best, rival = others.max(1)
    needed = torch.where(scores[:, own].isinf(), torch.inf, best - scores[:, own])
    present = (needed < 0) | ((needed == 0) & (own < rival))
    hit, total = weight * (labels == own), float((weight * (labels == own)).sum())
    order = needed.argsort(stable=True)
    ahead, right, taken = needed[order], hit[order].cumsum(0), weight[order].cumsum(0)
    after = torch.cat([ahead[1:], ahead.new_full((1,), torch.inf)])
    is_cut = ahead.isfinite() & (after > ahead)
    places = ahead + ((after - ahead) / 2).clamp(max=NUDGE)
    right, taken = right[is_cut], taken[is_cut]
    right = torch.cat([hit[present].sum()[None], right])
    taken = torch.cat([weight[present].sum()[None], taken])
    values = right / total if metric == "recall" else right / taken.clamp(min=torch.finfo(torch.float64).tiny)
    return torch.cat([places.new_zeros(1), places[is_cut]]), values
