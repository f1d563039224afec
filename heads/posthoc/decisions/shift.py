"""Shifts of single classes in decisions, stated or fitted to a required recall or precision."""

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.posthoc.decisions.rule import ClassName
from frostbench.heads.spec import Spec

Target = Annotated[float, Field(gt=0, le=1)]
Logit = Annotated[float, Field(ge=-50, le=50)]
NUDGE = 1e-3
"""Maximum excess of a shift over the smallest one that changes all rows that must change."""
ROUNDS = 200


class NoShift(Spec):
    """No shift: no class is favoured."""

    kind: Literal["none"] = "none"


class GivenShift(Spec):
    """Add given offsets to the log-probabilities of some classes before the largest is chosen."""

    tier = "experimental"

    kind: Literal["given"] = "given"
    logits: dict[ClassName, Logit] = Field(
        default_factory=dict, max_length=100_000, title="Decision shift: logits by class"
    )
    """Offset added to a class's log-probability, by name (0 if unnamed); above 0, it is predicted more often."""


class WantedShift(Spec):
    """Find the smallest shifts that give named classes a required recall or precision on the calibration rows."""

    tier = "experimental"

    kind: Literal["wanted"] = "wanted"
    metric: Literal["recall", "precision"] = Field(default="recall", title="Decision shift: metric")
    """Metric of the targets; any recall of a single class can be reached, but a precision often cannot."""
    targets: dict[ClassName, Target] = Field(
        default_factory=dict, max_length=1000, title="Decision shift: targets by class"
    )
    """Minimum value for each class by name; a class that already reaches it is not shifted."""

    def fit(self, scores: Tensor, labels: Tensor, weight: Tensor, names: Sequence[str]) -> Tensor:
        """Fit shifts [C] float64 for scores [N, C], such as log-probabilities minus log thresholds.

        Classes are adjusted in turn until all reach their target.

        Raises:
            ValueError: a named class has no rows, no shift reaches its target (the message states the best value), or
                the classes do not reach their targets together.
        """
        exact = scores.double()
        shift = torch.zeros(scores.shape[1], dtype=torch.float64)
        for _ in range(ROUNDS):
            before = shift.clone()
            for name, target in self.targets.items():
                index = names.index(name)
                shift[index] += self._needed(name, target, exact + shift, labels, weight, index)
            if torch.equal(before, shift):
                return shift
        raise ValueError(
            f"Shifts must give each named class its required {self.metric}, but {len(self.targets)} classes keep "
            "taking rows from each other. Lower posthoc.shift.targets, or name fewer classes."
        )

    def _needed(self, name: str, target: float, scores: Tensor, labels: Tensor, weight: Tensor, own: int) -> float:
        """Return the smallest change of a class's shift that reaches its target."""
        if not (labels == own).any():
            raise ValueError(
                f"The {self.metric} of a class is measured on its calibration rows, but class {name!r} has none. "
                "Remove it from posthoc.shift.targets, or give it rows in the split."
            )
        changes, values = _cuts(scores, labels, weight, own, self.metric)
        reached = values >= target - 1e-9
        if not reached.any():
            raise ValueError(
                f"A shift must reach the required {self.metric}, but for class {name!r} that is {target:g} and the "
                f"best value on the calibration rows is {float(values.max()):.4f}. Lower posthoc.shift.targets."
            )
        return float(changes[reached][changes[reached].abs().argmin()])


def _cuts(scores: Tensor, labels: Tensor, weight: Tensor, own: int, metric: str) -> tuple[Tensor, Tensor]:
    """Return all changes of a class's shift that affect predictions, starting with 0, and the metric of each."""
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
    changes = ahead + ((after - ahead) / 2).clamp(max=NUDGE)
    right, taken = right[is_cut], taken[is_cut]
    right = torch.cat([hit[present].sum()[None], right])
    taken = torch.cat([weight[present].sum()[None], taken])
    values = right / total if metric == "recall" else right / taken.clamp(min=torch.finfo(torch.float64).tiny)
    return torch.cat([changes.new_zeros(1), changes[is_cut]]), values
