"""A stack: heads that differ only in numbers and are trained together, one step at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from frostbench.training.data.row_stream import FrontedRows, StreamedRows
from frostbench.training.engine.ema import Average
from frostbench.training.engine.objective import Objective
from frostbench.training.engine.optimisers import Extras, of_the_kind_of, optimiser_for
from frostbench.training.engine.step_inputs import PerHead, PerStep
from frostbench.training.engine.vmap import first, leading, per_head_of, sources_of, wide_copy

LOGITS_AT_ONCE = 16_777_216
"""Maximum number of logits that are evaluated at a time; further heads are evaluated in turn."""
Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Features:
    """Input features of the heads of a stack.

    Attributes:
        train: features of the training rows, [N, D] if shared or [K, N, D] if separate for each head; in memory or
            streamed.
        select: features of the validation rows, [M, D] or [K, M, D]; in memory.
        is_shared: whether all heads read the same features.
    """

    train: Tensor | StreamedRows | FrontedRows
    select: Tensor
    is_shared: bool

    def batch(self, rows: Tensor) -> Tensor:
        """Return the features [B, D] or [K, B, D] of the training rows with these indices [B]."""
        if isinstance(self.train, FrontedRows):
            return self.train.batch(rows)
        return self.train[rows] if isinstance(self.train, StreamedRows) or self.is_shared else self.train[:, rows]

    def of(self, chosen: Tensor) -> "Features":
        """Return the features of the heads at the chosen indices [K']."""
        if self.is_shared or isinstance(self.train, StreamedRows):
            return self
        train = self.train.of(chosen) if isinstance(self.train, FrontedRows) else self.train[chosen]
        return Features(train, self.select[chosen], False)


class Stack:
    """Heads whose objectives differ only in numbers; their parameters have a leading dimension of K heads.

    Many heads take a step under `torch.func.vmap`; a single head runs without it.

    Attributes:
        objectives: objectives of the heads still in training.
        features: input features of the heads.
        optimiser: holds the parameters, [K, ...] by name.
    """

    def __init__(self, objectives: Sequence[Objective], noises: Sequence[torch.Generator], features: Features) -> None:
        self.objectives = list(objectives)
        self.features = features
        self._alone = len(objectives) == 1
        self._template = objectives[0] if self._alone else wide_copy(objectives[0])
        optims = [o.spec.optim for o in objectives]
        extras = Extras.of([o.rates for o in objectives], [o.decay_rows for o in objectives])
        self.optimiser = optimiser_for(self._first_parameters(), optims, objectives[0].decayed, extras)
        self._average = Average.of(self.optimiser.parameters, [o.spec.ema for o in objectives])
        self._buffers = self._first_buffers()
        self._row_buffers = objectives[0].row_buffers
        self._per_head = per_head_of(objectives)
        self._noises, self._source = sources_of(objectives, noises)

    def _first_parameters(self) -> Tensors:
        """Return the parameters by name, stacked as [K, ...]; for a single head, as views of its parameters."""
        if self._alone:
            return {name: p.data[None] for name, p in self._template.named_parameters()}
        joined: Tensors = leading([{n: p.detach() for n, p in o.named_parameters()} for o in self.objectives])
        return {name: p.requires_grad_() for name, p in joined.items()}

    def _first_buffers(self) -> Tensors:
        """Return the buffers [K, ...] by name; those of a single head are views of its own."""
        if self._alone:
            return {name: b[None] for name, b in self._template.named_buffers()}
        joined: Tensors = leading([dict(o.named_buffers()) for o in self.objectives])
        return joined

    def __len__(self) -> int:
        return len(self.objectives)

    def step(self, rows: Tensor, labels: Tensor, per_step: PerStep, factor: float) -> Tensor:
        """Update all heads by one step and return their objectives [K] before it.

        Args:
            rows: indices [B] of the step's training rows.
            labels: their labels [B].
            per_step: inputs that the heads share.
            factor: learning-rate factor from the schedule.
        """
        x = self.features.batch(rows)
        first_x = x if self.features.is_shared else x[0]
        draws = [self.objectives[self._source.index(i)].draw(first_x, labels, g) for i, g in enumerate(self._noises)]
        if self._alone:
            values, updates = self._template(first_x, labels, rows, draws[0], first(self._per_head), per_step)
            gradients = torch.autograd.grad(values, list(self._template.parameters()), materialize_grads=True)
            values, gradients = values[None], tuple(g[None] for g in gradients)
        else:
            values, updates = self._objectives(x, labels, rows, draws, per_step)
            leaves = list(self.optimiser.parameters.values())
            gradients = torch.autograd.grad(values.sum(), leaves, materialize_grads=True)
        self.optimiser.step(dict(zip(self.optimiser.parameters, gradients, strict=True)), factor)
        self._update_buffers(updates, rows)
        objectives: Tensor = values.detach()
        return objectives

    def _objectives(
        self, x: Tensor, labels: Tensor, index: Tensor, draws: list[Any], per_step: PerStep
    ) -> tuple[Tensor, Tensors]:
        """Return the objectives [K] and updated buffers of many heads; draws has one entry per noise source."""
        template = self._template
        is_one_draw = len(draws) == 1
        drawn = draws[0] if is_one_draw else leading([draws[i] for i in self._source])

        def of_head(parameters: Tensors, buffers: Tensors, rows: Tensor, draw: Any, per_head: PerHead) -> Any:
            return functional_call(template, (parameters, buffers), (rows, labels, index, draw, per_head, per_step))

        lifted = vmap(of_head, in_dims=(0, 0, self._row_dim, None if is_one_draw else 0, 0))
        result: tuple[Tensor, Tensors] = lifted(self.optimiser.parameters, self._buffers, x, drawn, self._per_head)
        return result

    def _update_buffers(self, updates: Tensors, rows: Tensor) -> None:
        """Store the buffers that a step returned, and update the averages of the parameters if there are any."""
        for name, value in updates.items():
            if name in self._row_buffers:
                self._update_rows(name, value[None] if self._alone else value, rows)
            elif self._alone:
                self._buffers[name][0].copy_(value)
            else:
                self._buffers[name] = value
        if self._average is not None:
            self._average.step(self.optimiser.parameters, self.optimiser.steps)

    def _update_rows(self, name: str, value: Tensor, rows: Tensor) -> None:
        """Store the values [K, B] of a step's rows [B] in a buffer with one entry per training row."""
        if self._row_buffers[name] == "set":
            self._buffers[name][:, rows] = value
        else:
            self._buffers[name].index_add_(1, rows, value)

    def buffer(self, name: str) -> Tensor:
        """Return the buffer [K, ...] of this name, to be changed in place."""
        return self._buffers[name]

    @property
    def evaluated(self) -> Tensors:
        """The parameters [K, ...] by name that are evaluated and kept: the averages, or the current values."""
        return self.optimiser.parameters if self._average is None else self._average.values

    @property
    def _row_dim(self) -> int | None:
        return None if self.features.is_shared else 0

    @torch.no_grad()
    def logits(self, classes: int) -> Tensor:
        """Compute the logits [K, M, C] of the heads for the validation rows."""
        x, core = self.features.select, self._template.core
        if self._alone and self._average is None:
            alone: Tensor = core(x if self.features.is_shared else x[0])
            return torch.stack([alone])
        tensors = self.evaluated | self._buffers
        state = {n.removeprefix("core."): t for n, t in tensors.items() if n.startswith("core.")}
        at_once = max(1, LOGITS_AT_ONCE // (len(x if self.features.is_shared else x[0]) * classes))
        lifted = vmap(lambda t, rows: functional_call(core, t, (rows,)), in_dims=(0, self._row_dim), chunk_size=at_once)
        logits: Tensor = lifted(state, x)
        return logits

    def put_back(self, index: int, parameters: Mapping[str, Tensor]) -> None:
        """Load these parameters into the objective of a head."""
        with torch.no_grad():
            objective = self.objectives[index]
            for name, parameter in objective.named_parameters():
                parameter.copy_(parameters[name])
            if objective.core.tau is not None:
                objective.core.tau.copy_(parameters["core.tau"])

    def parameters_of(self, index: int) -> Tensors:
        """Return a copy of a head's evaluated parameters by name, with its class temperatures if it has any."""
        tensors = self.evaluated
        if self._template.core.tau is not None:
            tensors = tensors | {"core.tau": self.buffer("core.tau")}
        return {name: p[index].detach().clone() for name, p in tensors.items()}

    def state(self) -> dict[str, Any]:
        """Return everything that the next step depends on. The tensors are not copies."""
        average = {} if self._average is None else self._average.values
        noises = [self._noises[source].get_state() for source in self._source]
        parts = {"parameters": self.optimiser.parameters, "optimiser": self.optimiser.state(), "average": average}
        return parts | {"buffers": self._buffers, "noises": noises}

    @torch.no_grad()
    def restore(self, state: Mapping[str, Any], indices: Sequence[int]) -> None:
        """Restore the state saved from a stack in which the heads had these indices.

        Raises:
            KeyError: the state belongs to other heads.
        """
        chosen = list(indices)
        for name, parameter in self.optimiser.parameters.items():
            parameter.copy_(state["parameters"][name][chosen])
        optims = [o.spec.optim for o in self.objectives]
        self.optimiser = of_the_kind_of(state["optimiser"], self.optimiser, optims, self.objectives[0].decayed)
        self.optimiser.restore(state["optimiser"], indices)
        if self._average is not None:
            for name, value in self._average.values.items():
                value.copy_(state["average"][name][chosen])
        for name in self._buffers:
            self._buffers[name].copy_(state["buffers"][name][chosen])
        for source, noise in enumerate(self._noises):
            noise.set_state(state["noises"][indices[self._source.index(source)]])

    def keep(self, indices: Sequence[int]) -> None:
        """Drop all heads except those at these indices."""
        chosen = torch.tensor(indices, device=next(iter(self.optimiser.parameters.values())).device)
        self.optimiser.keep(indices)
        if self._average is not None:
            self._average.keep(indices)
        self.features = self.features.of(chosen)
        self._buffers = {name: b[chosen] for name, b in self._buffers.items()}
        numbers, weight, log_prior = self._per_head
        self._per_head = PerHead({n: v[chosen] for n, v in numbers.items()}, weight[chosen], log_prior[chosen])
        self.objectives = [self.objectives[i] for i in indices]
        used = sorted({self._source[i] for i in indices})
        self._source = [used.index(self._source[i]) for i in indices]
        self._noises = [self._noises[i] for i in used]
