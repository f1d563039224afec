"""Exponential moving averages of parameters."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


class Average:
    """Moving averages of parameters with a leading dimension of K heads.

    Early in training the decay is capped at (1 + steps) / (10 + steps), because the average starts at the initial
    weights.

    Attributes:
        values: [K, ...] by name.
    """

    def __init__(self, parameters: Mapping[str, Tensor], decays: Tensor) -> None:
        self.values = {name: p.detach().clone() for name, p in parameters.items()}
        self._decays = decays

    @classmethod
    def of(cls, parameters: Mapping[str, Tensor], decays: Sequence[float]) -> "Average | None":
        """Build the averages from the decay of each head, or return None if all decays are 0."""
        like = next(iter(parameters.values()))
        return cls(parameters, like.new_tensor(decays)) if any(decays) else None

    @torch.no_grad()
    def step(self, parameters: Mapping[str, Tensor], steps: int) -> None:
        """Update the averages with the parameters after this many steps."""
        kept = self._decays.clamp(max=(1 + steps) / (10 + steps))
        for name, value in self.values.items():
            value.lerp_(parameters[name], (1 - kept).view(-1, *[1] * (value.ndim - 1)))

    def keep(self, chosen: Sequence[int]) -> None:
        """Drop all heads except those at the chosen indices."""
        self.values = {name: value[list(chosen)] for name, value in self.values.items()}
        self._decays = self._decays[list(chosen)]
