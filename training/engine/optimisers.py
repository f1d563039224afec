"""Optimisers of stacks: parameters lead with a dimension of K heads, and each head has its own numbers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from frostbench.training.spec.optim import AdamW, Sgd

BETAS, EPSILON = (0.9, 0.999), 1e-8
"""Averages of AdamW and the floor of its denominator, as in torch."""
SMALL_HEAD = 32_768
"""Numbers of a head up to which moving all heads at once is faster on the CPU, where a pass over memory is short."""
Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Extras:
    """What some parameters have for themselves.

    Attributes:
        rates: factors [K] on the learning rates of the heads, by name of the parameter.
        decays: factors [K, C, 1] on their weight decay, likewise.
    """

    rates: Tensors
    decays: Tensors

    @classmethod
    def of(cls, rates: Sequence[Mapping[str, float]], decays: Sequence[Mapping[str, Tensor]]) -> "Extras":
        """Those of K heads, which all name the same parameters."""
        return cls(
            {name: torch.tensor([each[name] for each in rates]) for name in rates[0]},
            {name: torch.stack([each[name] for each in decays]) for name in decays[0]},
        )

    def __bool__(self) -> bool:
        return bool(self.rates or self.decays)

    def keep(self, chosen: Sequence[int]) -> "Extras":
        """Those of the chosen heads, by their places."""
        some = list(chosen)
        return Extras({n: r[some] for n, r in self.rates.items()}, {n: d[some] for n, d in self.decays.items()})


NO_EXTRAS = Extras({}, {})


class StackedOptimiser:
    """Moves parameters that lead with a dimension of K heads, all at once, each head by its own numbers.

    With the same numbers its steps are those of torch.optim.AdamW and torch.optim.SGD, which have one learning rate
    for a whole tensor. For many small heads this takes a fraction of their time.

    Attributes:
        parameters: by name, [K, ...]; changed in place.
        averages: running averages by their name and that of the parameter.
        steps: how many were taken.
    """

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        specs: Sequence[AdamW | Sgd],
        decayed: frozenset[str],
        extras: Extras = NO_EXTRAS,
    ) -> None:
        self.parameters = dict(parameters)
        self._decayed, self._extras = decayed, extras
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
            lr = self._number("lr", parameter) * factor
            if name in self._extras.rates:
                lr = lr * _shaped(self._extras.rates[name].to(lr), parameter)
            if self.is_adam:
                self._adam(name, parameter, gradients[name], lr)
            else:
                self._sgd(name, parameter, gradients[name], lr)

    def _decay(self, name: str, parameter: Tensor) -> Tensor | None:
        """The decay of a parameter, shaped to be multiplied with it; None where it is not decayed."""
        if name not in self._decayed:
            return None
        decay = self._number("decay", parameter)
        return decay * self._extras.decays[name] if name in self._extras.decays else decay

    def _adam(self, name: str, parameter: Tensor, gradient: Tensor, lr: Tensor) -> None:
        first, second = self.averages["first"][name], self.averages["second"][name]
        decay = self._decay(name, parameter)
        if decay is not None:
            parameter.mul_(1 - lr * decay)
        first.lerp_(gradient, 1 - BETAS[0])
        second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        # lr / (1 - b1^t) * first / (sqrt(second / (1 - b2^t)) + eps) with all factors in the denominator; a rate of 0
        # makes it infinite, and the step 0.
        root = math.sqrt(1 - BETAS[1] ** self.steps)
        divisor = second.sqrt().add_(EPSILON * root).div_(lr * (root / (1 - BETAS[0] ** self.steps)))
        parameter.addcdiv_(first, divisor, value=-1)

    def _sgd(self, name: str, parameter: Tensor, gradient: Tensor, lr: Tensor) -> None:
        decay = self._decay(name, parameter)
        if decay is not None:
            gradient = gradient + decay * parameter
        moved = self.averages["first"][name]
        moved.mul_(self._number("momentum", parameter)).add_(gradient)
        parameter.sub_(moved * lr)

    def _number(self, name: str, parameter: Tensor) -> Tensor:
        """The heads' numbers, shaped to be multiplied with a parameter."""
        return _shaped(self._numbers[name], parameter)

    def state(self) -> dict[str, Any]:
        """What the next step depends on beside the parameters."""
        return {"steps": self.steps, "averages": self.averages}

    def restore(self, state: Mapping[str, Any], places: Sequence[int]) -> None:
        """Go on from the state of a stack in which the heads had these places."""
        self.steps = state["steps"]
        chosen = list(places)
        self.averages = {k: {n: a[chosen] for n, a in avg.items()} for k, avg in state["averages"].items()}

    def keep(self, chosen: Sequence[int]) -> None:
        """Go on with the chosen heads alone, by their places."""
        self.parameters = {n: p[list(chosen)].detach().requires_grad_() for n, p in self.parameters.items()}
        self.averages = {k: {n: a[list(chosen)] for n, a in average.items()} for k, average in self.averages.items()}
        self._numbers = {name: values[list(chosen)] for name, values in self._numbers.items()}
        self._extras = self._extras.keep(chosen)


def _shaped(numbers: Tensor, parameter: Tensor) -> Tensor:
    """Numbers [K] as factors of a parameter [K, ...]."""
    return numbers.view(-1, *[1] * (parameter.ndim - 1))


class Apart:
    """Moves each head by torch's own optimiser, in one pass over its parameters (fused)."""

    def __init__(self, parameters: Mapping[str, Tensor], specs: Sequence[AdamW | Sgd], decayed: frozenset[str]) -> None:
        self.parameters = dict(parameters)
        self.steps = 0
        self._decayed = decayed
        self._specs = list(specs)
        self._optimisers = [self._optimiser(k, spec) for k, spec in enumerate(specs)]

    def _optimiser(self, place: int, spec: AdamW | Sgd) -> torch.optim.Optimizer:
        """The optimiser of a head, over views of its parameters."""
        views = {name: p[place].detach().requires_grad_() for name, p in self.parameters.items()}
        groups = [
            {"params": [v for n, v in views.items() if n in self._decayed], "weight_decay": spec.weight_decay},
            {"params": [v for n, v in views.items() if n not in self._decayed], "weight_decay": 0.0},
        ]
        if isinstance(spec, AdamW):
            return torch.optim.AdamW(groups, lr=spec.lr, betas=BETAS, eps=EPSILON, fused=True)
        return torch.optim.SGD(groups, lr=spec.lr, momentum=spec.momentum, fused=True)

    def step(self, gradients: Mapping[str, Tensor], factor: float) -> None:
        """One step against gradients of the parameters, with learning rates times factor."""
        self.steps += 1
        for place, (spec, optimiser) in enumerate(zip(self._specs, self._optimisers, strict=True)):
            # The fused step reads memory in order, whatever the strides.
            own = {name: gradients[name][place].contiguous() for name in self.parameters}
            decayed = [g for name, g in own.items() if name in self._decayed]
            others = [g for name, g in own.items() if name not in self._decayed]
            for group, of_group in zip(optimiser.param_groups, (decayed, others), strict=True):
                group["lr"] = spec.lr * factor
                for view, gradient in zip(group["params"], of_group, strict=True):
                    view.grad = gradient
            optimiser.step()

    def state(self) -> dict[str, Any]:
        """What the next step depends on beside the parameters."""
        return {"steps": self.steps, "heads": [optimiser.state_dict() for optimiser in self._optimisers]}

    def restore(self, state: Mapping[str, Any], places: Sequence[int]) -> None:
        """Go on from the state of a stack in which the heads had these places."""
        self.steps = state["steps"]
        for optimiser, place in zip(self._optimisers, places, strict=True):
            optimiser.load_state_dict(state["heads"][place])

    def keep(self, chosen: Sequence[int]) -> None:
        """Go on with the chosen heads alone, by their places."""
        old = [self._optimisers[place] for place in chosen]
        self._specs = [self._specs[place] for place in chosen]
        self.parameters = {n: p[list(chosen)].detach().requires_grad_() for n, p in self.parameters.items()}
        self._optimisers = [self._optimiser(k, spec) for k, spec in enumerate(self._specs)]
        for before, after in zip(old, self._optimisers, strict=True):
            after.load_state_dict(before.state_dict())


Optimiser = StackedOptimiser | Apart


def optimiser_for(
    parameters: Mapping[str, Tensor],
    specs: Sequence[AdamW | Sgd],
    decayed: frozenset[str],
    extras: Extras = NO_EXTRAS,
) -> Optimiser:
    """The faster of the two for parameters [K, ...] by name, of which those in decayed shrink.

    Only one of them knows numbers that some parameters have for themselves.
    """
    if extras:
        return StackedOptimiser(parameters, specs, decayed, extras)
    numbers = sum(p[0].numel() for p in parameters.values())
    on_cpu = all(p.device.type == "cpu" for p in parameters.values())
    kind = Apart if on_cpu and (len(specs) == 1 or numbers > SMALL_HEAD) else StackedOptimiser
    return kind(parameters, specs, decayed)


def of_the_kind_of(
    state: Mapping[str, Any], optimiser: Optimiser, specs: Sequence[AdamW | Sgd], decayed: frozenset[str]
) -> Optimiser:
    """The optimiser, or one of the same parameters that can take over a state which the other kind has left.

    A head that goes on alone would be moved apart, and its averages may be those of a stack that was moved together.
    """
    kind = Apart if "heads" in state else StackedOptimiser
    return optimiser if isinstance(optimiser, kind) else kind(optimiser.parameters, specs, decayed)
