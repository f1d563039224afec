"""Optimisers of stacks, whose parameters have a leading dimension of K heads with separate hyper-parameters."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from frostbench.training.spec.optim import AdamW, Sgd

BETAS, EPSILON = (0.9, 0.999), 1e-8
"""Betas and epsilon of AdamW, as in torch."""
SMALL_HEAD = 32_768
"""Largest parameter count of a head for which updating all heads at once is faster on the CPU."""
Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Extras:
    """Factors that apply to single parameters.

    Attributes:
        rates: learning-rate factors [K] of the heads, by name of the parameter.
        decays: weight-decay factors [K, C, 1], by name of the parameter.
    """

    rates: Tensors
    decays: Tensors

    @classmethod
    def of(cls, rates: Sequence[Mapping[str, float]], decays: Sequence[Mapping[str, Tensor]]) -> "Extras":
        """Stack the factors of K heads, which all name the same parameters."""
        return cls(
            {name: torch.tensor([head[name] for head in rates]) for name in rates[0]},
            {name: torch.stack([head[name] for head in decays]) for name in decays[0]},
        )

    def __bool__(self) -> bool:
        return bool(self.rates or self.decays)

    def keep(self, chosen: Sequence[int]) -> "Extras":
        """Return the factors of the heads at the chosen indices."""
        indices = list(chosen)
        return Extras({n: r[indices] for n, r in self.rates.items()}, {n: d[indices] for n, d in self.decays.items()})


NO_EXTRAS = Extras({}, {})


class StackedOptimiser:
    """Optimiser that updates all K heads at once, with the hyper-parameters of each head.

    With equal hyper-parameters its steps match torch.optim.AdamW and torch.optim.SGD, which allow only one learning
    rate per tensor. For many small heads it takes a fraction of the time of separate optimisers.

    Attributes:
        parameters: parameters [K, ...] by name, updated in place.
        averages: moments [K, ...] by moment name and parameter name; for SGD, the velocity.
        steps: number of steps taken.
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
        like = next(iter(parameters.values()))
        self._numbers = {
            "lr": like.new_tensor([spec.lr for spec in specs]),
            "decay": like.new_tensor([spec.weight_decay for spec in specs]),
            "momentum": like.new_tensor([spec.momentum if isinstance(spec, Sgd) else 0.0 for spec in specs]),
        }
        self.steps = 0

    @torch.no_grad()
    def step(self, gradients: Mapping[str, Tensor], factor: float) -> None:
        """Take one step with these gradients and the learning rates times factor."""
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
        """Return the weight decay of a parameter, shaped to broadcast with it, or None if it is not decayed."""
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
        # lr / (1 - b1^t) * first / (sqrt(second / (1 - b2^t)) + eps) with all factors in the denominator. With a
        # learning rate of 0 the denominator is infinite and the step 0.
        root = math.sqrt(1 - BETAS[1] ** self.steps)
        divisor = second.sqrt().add_(EPSILON * root).div_(lr * (root / (1 - BETAS[0] ** self.steps)))
        parameter.addcdiv_(first, divisor, value=-1)

    def _sgd(self, name: str, parameter: Tensor, gradient: Tensor, lr: Tensor) -> None:
        decay = self._decay(name, parameter)
        if decay is not None:
            gradient = gradient + decay * parameter
        velocity = self.averages["first"][name]
        velocity.mul_(self._number("momentum", parameter)).add_(gradient)
        parameter.sub_(velocity * lr)

    def _number(self, name: str, parameter: Tensor) -> Tensor:
        return _shaped(self._numbers[name], parameter)

    def state(self) -> dict[str, Any]:
        """Return everything that the next step depends on, except the parameters."""
        return {"steps": self.steps, "averages": self.averages}

    def restore(self, state: Mapping[str, Any], indices: Sequence[int]) -> None:
        """Restore the state saved from a stack in which the heads had these indices."""
        self.steps = state["steps"]
        chosen = list(indices)
        self.averages = {k: {n: a[chosen] for n, a in avg.items()} for k, avg in state["averages"].items()}

    def keep(self, chosen: Sequence[int]) -> None:
        """Drop all heads except those at the chosen indices."""
        self.parameters = {n: p[list(chosen)].detach().requires_grad_() for n, p in self.parameters.items()}
        self.averages = {k: {n: a[list(chosen)] for n, a in average.items()} for k, average in self.averages.items()}
        self._numbers = {name: values[list(chosen)] for name, values in self._numbers.items()}
        self._extras = self._extras.keep(chosen)


def _shaped(numbers: Tensor, parameter: Tensor) -> Tensor:
    """Reshape numbers [K] to broadcast with a parameter [K, ...]."""
    return numbers.view(-1, *[1] * (parameter.ndim - 1))


class SeparateOptimisers:
    """Separate fused torch optimisers, one per head."""

    def __init__(self, parameters: Mapping[str, Tensor], specs: Sequence[AdamW | Sgd], decayed: frozenset[str]) -> None:
        self.parameters = dict(parameters)
        self.steps = 0
        self._decayed = decayed
        self._specs = list(specs)
        self._optimisers = [self._optimiser(k, spec) for k, spec in enumerate(specs)]

    def _optimiser(self, head: int, spec: AdamW | Sgd) -> torch.optim.Optimizer:
        """Build the optimiser of a head over views of its parameters."""
        views = {name: p[head].detach().requires_grad_() for name, p in self.parameters.items()}
        groups = [
            {"params": [v for n, v in views.items() if n in self._decayed], "weight_decay": spec.weight_decay},
            {"params": [v for n, v in views.items() if n not in self._decayed], "weight_decay": 0.0},
        ]
        if isinstance(spec, AdamW):
            return torch.optim.AdamW(groups, lr=spec.lr, betas=BETAS, eps=EPSILON, fused=True)
        return torch.optim.SGD(groups, lr=spec.lr, momentum=spec.momentum, fused=True)

    def step(self, gradients: Mapping[str, Tensor], factor: float) -> None:
        """Take one step with these gradients and the learning rates times factor."""
        self.steps += 1
        for head, (spec, optimiser) in enumerate(zip(self._specs, self._optimisers, strict=True)):
            # The fused step ignores strides and reads memory in order.
            of_head = {name: gradients[name][head].contiguous() for name in self.parameters}
            decayed = [g for name, g in of_head.items() if name in self._decayed]
            others = [g for name, g in of_head.items() if name not in self._decayed]
            for group, of_group in zip(optimiser.param_groups, (decayed, others), strict=True):
                group["lr"] = spec.lr * factor
                for view, gradient in zip(group["params"], of_group, strict=True):
                    view.grad = gradient
            optimiser.step()

    def state(self) -> dict[str, Any]:
        """Return everything that the next step depends on, except the parameters."""
        return {"steps": self.steps, "heads": [optimiser.state_dict() for optimiser in self._optimisers]}

    def restore(self, state: Mapping[str, Any], indices: Sequence[int]) -> None:
        """Restore the state saved from a stack in which the heads had these indices."""
        self.steps = state["steps"]
        for optimiser, index in zip(self._optimisers, indices, strict=True):
            optimiser.load_state_dict(state["heads"][index])

    def keep(self, chosen: Sequence[int]) -> None:
        """Drop all heads except those at the chosen indices."""
        old = [self._optimisers[index] for index in chosen]
        self._specs = [self._specs[index] for index in chosen]
        self.parameters = {n: p[list(chosen)].detach().requires_grad_() for n, p in self.parameters.items()}
        self._optimisers = [self._optimiser(k, spec) for k, spec in enumerate(self._specs)]
        for before, after in zip(old, self._optimisers, strict=True):
            after.load_state_dict(before.state_dict())


Optimiser = StackedOptimiser | SeparateOptimisers


def optimiser_for(
    parameters: Mapping[str, Tensor],
    specs: Sequence[AdamW | Sgd],
    decayed: frozenset[str],
    extras: Extras = NO_EXTRAS,
) -> Optimiser:
    """Build the faster of the two optimisers for parameters [K, ...] by name; weight decay applies to `decayed`.

    Only StackedOptimiser supports extras.
    """
    if extras:
        return StackedOptimiser(parameters, specs, decayed, extras)
    size = sum(p[0].numel() for p in parameters.values())
    on_cpu = all(p.device.type == "cpu" for p in parameters.values())
    kind = SeparateOptimisers if on_cpu and (len(specs) == 1 or size > SMALL_HEAD) else StackedOptimiser
    return kind(parameters, specs, decayed)


def of_the_kind_of(
    state: Mapping[str, Any], optimiser: Optimiser, specs: Sequence[AdamW | Sgd], decayed: frozenset[str]
) -> Optimiser:
    """Return an optimiser of the same parameters that can restore this state.

    A head that resumes alone would get its own torch optimiser, but its state may be that of a StackedOptimiser.
    """
    kind = SeparateOptimisers if "heads" in state else StackedOptimiser
    return optimiser if isinstance(optimiser, kind) else kind(optimiser.parameters, specs, decayed)
