"""Running averages of parameters."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


class Average:
    """Running averages of parameters that lead with a dimension of K heads.

    Early on the last average counts less, (1 + steps) / (10 + steps) at most, for it began at the first weights.

    Attributes:
        values: [K, ...] by name.
    """

    def __init__(self, parameters: Mapping[str, Tensor], decays: Tensor) -> None:
        self.values = {name: p.detach().clone() for name, p in parameters.items()}
        self._decays = decays

    @classmethod
    def of(cls, parameters: Mapping[str, Tensor], decays: Sequence[float]) -> "Average | None":
        """The averages with the decay of each head; None where none asks for one."""
        some = next(iter(parameters.values()))
        return cls(parameters, some.new_tensor(decays)) if any(decays) else None

    @torch.no_grad()
    def step(self, parameters: Mapping[str, Tensor], steps: int) -> None:
        """Take in the parameters after that many steps."""
        kept = self._decays.clamp(max=(1 + steps) / (10 + steps))
        for name, value in self.values.items():
            value.lerp_(parameters[name], (1 - kept).view(-1, *[1] * (value.ndim - 1)))

    def keep(self, chosen: Sequence[int]) -> None:
        """Go on with the chosen heads alone, by their places."""
        self.values = {name: value[list(chosen)] for name, value in self.values.items()}
        self._decays = self._decays[list(chosen)]
