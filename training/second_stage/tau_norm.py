"""Tau-normalisation: the weights of each class are divided by a power of their norm."""

import math
from typing import ClassVar, Literal, Self

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.spec import Tier, empty
from frostbench.training.rule import Rule
from frostbench.training.second_stage.protocol import SecondStage

POWERS = tuple(k / 10 for k in range(21))
"""Candidate powers (Kang et al., ICLR 2020)."""


class TauNorm(SecondStage):
    """Divide the weights of each class by a power of their norm, and drop the biases.

    Kang et al., ICLR 2020, section 4.2 (tau-normalised classifier): weights of frequent classes have larger norms.
    """

    tier: ClassVar[Tier] = "experimental"
    rescales_rows: ClassVar[bool] = True
    reads_early_stop: ClassVar[bool] = True
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "no effect",
            lambda run: isinstance(run.second, TauNorm) and run.is_shifted,
            "tau_norm already corrects the prior and its logits are treated as balanced, so posthoc.adjustment has no "
            "effect: use one of the two",
        ),
    )
    kind: Literal["tau_norm"] = "tau_norm"
    tau: float | None = Field(
        default=None, ge=0, le=2, json_schema_extra=empty("the best of 0 to 2"), title="τ-normalisation: power τ"
    )
    """Power of the norms; null picks the one with the best validation metric, from 0 to 2 in steps of 0.1."""

    @property
    def strengths(self) -> tuple[float, ...]:
        """The candidate powers, or the given one."""
        return POWERS if self.tau is None else (self.tau,)

    def with_strength(self, strength: float) -> Self:
        """Return the stage with this power, unless one is given."""
        return self.model_copy(update={"tau": strength}) if self.tau is None else self

    def rescaled(self, weight: Tensor, strength: float) -> Tensor:
        """Return weights [C, H] divided by a power of their norms."""
        return tau_normalised(weight, strength)

    def carried(self, log_prior: Tensor) -> Tensor:
        """Return a uniform prior, because the biases are dropped and the norms evened out."""
        return torch.full_like(log_prior, -math.log(len(log_prior)))


def tau_normalised(weight: Tensor, power: float) -> Tensor:
    """Divide rows [C, H] by a power of their norm; rows of zeros are unchanged.

    >>> tau_normalised(torch.tensor([[3.0, 4], [0, 0.5]]), 0.5)
    tensor([[1.3416, 1.7889],
            [0.0000, 0.7071]])
    """
    norm = weight.norm(dim=1, keepdim=True)
    return weight / torch.where(norm > 0, norm, torch.ones_like(norm)).pow(power)
