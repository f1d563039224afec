"""Optimisers and schedules."""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from heads.spec import SWEPT, Spec

BETAS, EPSILON = (0.9, 0.999), 1e-8
"""Averages of AdamW and the floor of its denominator, as in torch."""


class AdamW(Spec):
    """Adam with decoupled weight decay.

    Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019.
    """

    kind: Literal["adamw"] = "adamw"
    lr: float = Field(default=3e-3, gt=0, le=10, json_schema_extra=SWEPT)
    """Peak learning rate."""
    weight_decay: float = Field(default=0.01, ge=0, le=10, json_schema_extra=SWEPT)
    """Decay of the weight matrices; biases and norms are never decayed."""


class Sgd(Spec):
    """Stochastic gradient descent with momentum."""

    kind: Literal["sgd"] = "sgd"
    lr: float = Field(default=0.1, gt=0, le=100, json_schema_extra=SWEPT)
    """Peak learning rate."""
    momentum: float = Field(default=0.9, ge=0, lt=1, json_schema_extra=SWEPT)
    """Share of the last step that is kept."""
    weight_decay: float = Field(default=0.0, ge=0, le=10, json_schema_extra=SWEPT)
    """L2 decay of the weight matrices; biases and norms are never decayed."""


class Optimiser:
    """Moves parameters that lead with a dimension of K heads, each by its own numbers.

    With the same numbers its steps are those of torch.optim.AdamW and torch.optim.SGD.

    Attributes:
        parameters: by name, [K, ...]; changed in place.
        averages: running averages by their name and that of the parameter.
        steps: how many were taken.
    """

    def __init__(self, parameters: Mapping[str, Tensor], specs: Sequence[AdamW | Sgd]) -> None:
        self.parameters = dict(parameters)
        self.is_adam = isinstance(specs[0], AdamW)
        kept = {"first", "second"} if self.is_adam else {"first"}
        self.averages = {name: {n: torch.zeros_like(p) for n, p in parameters.items()} for name in kept}
        some = next(iter(parameters.values()))
        self._numbers = {
            "lr": some.new_tensor([spec.lr for spec in specs]),
            "decay": some.new_tensor([spec.weight_decay for spec in specs]),
            "momentum": some.new_tensor([spec.momentum if isinstance(spec, Sgd) else 0.0 for spec in specs]),
        }
        self.steps = 0

    @torch.no_grad()
    def step(self, gradients: Mapping[str, Tensor], factor: float) -> None:
        """One step against gradients of the parameters, with learning rates times factor."""
        self.steps += 1
        for name, parameter in self.parameters.items():
            # Vectors (biases, norms) are not decayed: a decayed output bias would undo a prior.
            decayed = parameter.ndim > 2
            if self.is_adam:
                self._adam(name, parameter, gradients[name], factor, decayed)
            else:
                self._sgd(name, parameter, gradients[name], factor, decayed)

    def _adam(self, name: str, parameter: Tensor, gradient: Tensor, factor: float, decayed: bool) -> None:
        first, second = self.averages["first"][name], self.averages["second"][name]
        lr = self._number("lr", parameter) * factor
        if decayed:
            parameter.mul_(1 - lr * self._number("decay", parameter))
        first.lerp_(gradient, 1 - BETAS[0])
        second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        spread = second.sqrt().div_(math.sqrt(1 - BETAS[1] ** self.steps)).add_(EPSILON)
        parameter.sub_(spread.reciprocal_().mul_(first).mul_(lr / (1 - BETAS[0] ** self.steps)))

    def _sgd(self, name: str, parameter: Tensor, gradient: Tensor, factor: float, decayed: bool) -> None:
        if decayed:
            gradient = gradient + self._number("decay", parameter) * parameter
        moved = self.averages["first"][name]
        moved.mul_(self._number("momentum", parameter)).add_(gradient)
        parameter.sub_(moved * (self._number("lr", parameter) * factor))

    def _number(self, name: str, parameter: Tensor) -> Tensor:
        """The heads' numbers, shaped to be multiplied with a parameter."""
        return self._numbers[name].view(-1, *[1] * (parameter.ndim - 1))

    def keep(self, chosen: Tensor) -> None:
        """Go on with the chosen heads alone, by their indices [K']."""
        self.parameters = {n: p[chosen].detach().requires_grad_() for n, p in self.parameters.items()}
        self.averages = {k: {n: a[chosen] for n, a in average.items()} for k, average in self.averages.items()}
        self._numbers = {name: values[chosen] for name, values in self._numbers.items()}


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

    def keep(self, chosen: Tensor) -> None:
        """Go on with the chosen heads alone, by their indices [K']."""
        self.values = {name: value[chosen] for name, value in self.values.items()}
        self._decays = self._decays[chosen]


class Schedule(Spec):
    """How long and in what steps a stage trains."""

    epochs: int = Field(default=50, ge=1, le=100_000)
    """Passes over the training rows, or more where min_steps asks for more."""
    min_steps: int = Field(default=1000, ge=0, le=10_000_000)
    """Least number of steps: a small table is passed over more often than the epochs say; 0 leaves them alone."""
    batch_size: int = Field(default=64, ge=1, le=1_000_000)
    """Rows in one step."""
    shape: Literal["cosine", "constant"] = "cosine"
    """Course of the learning rate after the warm-up: down to 0 along a cosine, or level."""
    warmup: float = Field(default=0.05, ge=0, lt=1)
    """Share of all steps in which the learning rate rises linearly from 0."""

    def epochs_for(self, rows: int) -> int:
        """Passes over that many training rows.

        >>> Schedule(epochs=10, batch_size=50, min_steps=100).epochs_for(200)
        25
        """
        return max(self.epochs, math.ceil(self.min_steps / math.ceil(rows / self.batch_size)))

    def factor(self, progress: float) -> float:
        """Multiplier of the learning rate at a progress from 0 to 1.

        >>> [round(Schedule(warmup=0.2).factor(p), 3) for p in (0.1, 0.2, 0.6, 1.0)]
        [0.5, 1.0, 0.5, 0.0]
        """
        if progress < self.warmup:
            return progress / self.warmup
        past = (progress - self.warmup) / (1 - self.warmup)
        return 0.5 * (1 + math.cos(math.pi * past)) if self.shape == "cosine" else 1.0


OptimSpec = Annotated[AdamW | Sgd, Field(discriminator="kind")]
