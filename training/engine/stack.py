"""A stack: heads of one skeleton in training, moved together in each step."""

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
from frostbench.training.engine.vmap import first, leading, own_of, sources_of, wide_copy

LOGITS_AT_ONCE = 16_777_216
"""Numbers of logits that an evaluation holds at a time; heads beyond that are evaluated in turn."""
Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Features:
    """What the heads of a stack read.

    Attributes:
        train: features of the training rows, [N, D] for all heads, or [K, N, D] where each reads its own; in memory, or
            streamed.
        select: features of the selection rows, likewise; in memory.
        is_shared: which of the two.
    """

    train: Tensor | StreamedRows | FrontedRows
    select: Tensor
    is_shared: bool

    def batch(self, rows: Tensor) -> Tensor:
        """The features [B, D], or [K, B, D], of training rows with these numbers [B]."""
        if isinstance(self.train, FrontedRows):
            return self.train.batch(rows)
        return self.train[rows] if isinstance(self.train, StreamedRows) or self.is_shared else self.train[:, rows]

    def of(self, chosen: Tensor) -> "Features":
        """The features of the chosen heads [K']."""
        if self.is_shared or isinstance(self.train, StreamedRows):
            return self
        train = self.train.of(chosen) if isinstance(self.train, FrontedRows) else self.train[chosen]
        return Features(train, self.select[chosen], False)


class Stack:
    """Heads whose objectives differ in numbers alone; their parameters lead with a dimension of K heads.

    A step of many heads is the step of one under `torch.func.vmap`; a head alone is run as it is.

    Attributes:
        objectives: one for each head that is still trained.
        features: what they read.
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
        self._per_head = own_of(objectives)
        self._noises, self._source = sources_of(objectives, noises)

    def _first_parameters(self) -> Tensors:
        """[K, ...] by name; those of a head alone are views of its own."""
        if self._alone:
            return {name: p.data[None] for name, p in self._template.named_parameters()}
        joined: Tensors = leading([{n: p.detach() for n, p in o.named_parameters()} for o in self.objectives])
        return {name: p.requires_grad_() for name, p in joined.items()}

    def _first_buffers(self) -> Tensors:
        """[K, ...] by name; those of a head alone are views of its own."""
        if self._alone:
            return {name: b[None] for name, b in self._template.named_buffers()}
        joined: Tensors = leading([dict(o.named_buffers()) for o in self.objectives])
        return joined

    def __len__(self) -> int:
        return len(self.objectives)

    def step(self, rows: Tensor, labels: Tensor, moment: PerStep, factor: float) -> Tensor:
        """Move all heads by one step, with learning rates times factor; the objectives [K] from before it.

        Args:
            rows: numbers [B] of the step's training rows.
            labels: [B].
            moment: what the heads share.
            factor: from the schedule.
        """
        x = self.features.batch(rows)
        some = x if self.features.is_shared else x[0]
        draws = [self.objectives[self._source.index(i)].draw(some, labels, g) for i, g in enumerate(self._noises)]
        if self._alone:
            found, updates = self._template(some, labels, rows, draws[0], first(self._per_head), moment)
            gradients = torch.autograd.grad(found, list(self._template.parameters()), materialize_grads=True)
            found, gradients = found[None], tuple(g[None] for g in gradients)
        else:
            found, updates = self._objectives(x, labels, rows, draws, moment)
            leaves = list(self.optimiser.parameters.values())
            gradients = torch.autograd.grad(found.sum(), leaves, materialize_grads=True)
        self.optimiser.step(dict(zip(self.optimiser.parameters, gradients, strict=True)), factor)
        self._remember(updates, rows)
        objectives: Tensor = found.detach()
        return objectives

    def _objectives(
        self, x: Tensor, labels: Tensor, index: Tensor, draws: list[Any], moment: PerStep
    ) -> tuple[Tensor, Tensors]:
        """The objectives [K] of many heads, and their buffers after the step; draws has an entry for each source."""
        template = self._template
        is_one_draw = len(draws) == 1
        drawn = draws[0] if is_one_draw else leading([draws[i] for i in self._source])

        def one(parameters: Tensors, buffers: Tensors, rows: Tensor, draw: Any, per_head: PerHead) -> Any:
            return functional_call(template, (parameters, buffers), (rows, labels, index, draw, per_head, moment))

        lifted = vmap(one, in_dims=(0, 0, self._row_dim, None if is_one_draw else 0, 0))
        found: tuple[Tensor, Tensors] = lifted(self.optimiser.parameters, self._buffers, x, drawn, self._per_head)
        return found

    def _remember(self, updates: Tensors, rows: Tensor) -> None:
        """Take over what a step left in buffers, and average the parameters where that is asked for."""
        for name, value in updates.items():
            if name in self._row_buffers:
                self._remember_rows(name, value[None] if self._alone else value, rows)
            elif self._alone:
                self._buffers[name][0].copy_(value)
            else:
                self._buffers[name] = value
        if self._average is not None:
            self._average.step(self.optimiser.parameters, self.optimiser.steps)

    def _remember_rows(self, name: str, value: Tensor, rows: Tensor) -> None:
        """Take over what a step left [K, B] for its rows [B], in a buffer with an entry for each training row."""
        if self._row_buffers[name] == "set":
            self._buffers[name][:, rows] = value
        else:
            self._buffers[name].index_add_(1, rows, value)

    def buffer(self, name: str) -> Tensor:
        """The buffer [K, ...] of that name, to be changed in place."""
        return self._buffers[name]

    @property
    def judged(self) -> Tensors:
        """What is evaluated and kept, [K, ...] by name: the parameters, or their running averages."""
        return self.optimiser.parameters if self._average is None else self._average.values

    @property
    def _row_dim(self) -> int | None:
        return None if self.features.is_shared else 0

    @torch.no_grad()
    def logits(self, classes: int) -> Tensor:
        """What the heads predict for the selection rows, [K, M, C]."""
        x, core = self.features.select, self._template.core
        if self._alone and self._average is None:
            logits: Tensor = core(x if self.features.is_shared else x[0])
            return torch.stack([logits])
        tensors = self.judged | self._buffers
        state = {n.removeprefix("core."): t for n, t in tensors.items() if n.startswith("core.")}
        at_once = max(1, LOGITS_AT_ONCE // (len(x if self.features.is_shared else x[0]) * classes))
        lifted = vmap(lambda t, rows: functional_call(core, t, (rows,)), in_dims=(0, self._row_dim), chunk_size=at_once)
        found: Tensor = lifted(state, x)
        return found

    def put_back(self, place: int, parameters: Mapping[str, Tensor]) -> None:
        """Give the objective of a head these parameters."""
        with torch.no_grad():
            objective = self.objectives[place]
            for name, parameter in objective.named_parameters():
                parameter.copy_(parameters[name])
            if objective.core.tau is not None:
                objective.core.tau.copy_(parameters["core.tau"])

    def parameters_of(self, place: int) -> Tensors:
        """A copy of what is judged of a head, by name, with its class temperatures where it has any."""
        found = self.judged if self._template.core.tau is None else self.judged | {"core.tau": self.buffer("core.tau")}
        return {name: p[place].detach().clone() for name, p in found.items()}

    def state(self) -> dict[str, Any]:
        """What the next step depends on; tensors that go on changing."""
        average = {} if self._average is None else self._average.values
        noises = [self._noises[source].get_state() for source in self._source]
        parts = {"parameters": self.optimiser.parameters, "optimiser": self.optimiser.state(), "average": average}
        return parts | {"buffers": self._buffers, "noises": noises}

    @torch.no_grad()
    def restore(self, state: Mapping[str, Any], places: Sequence[int]) -> None:
        """Go on from the state of a stack in which the heads had these places.

        Raises:
            KeyError: the state is that of other heads.
        """
        chosen = list(places)
        for name, parameter in self.optimiser.parameters.items():
            parameter.copy_(state["parameters"][name][chosen])
        optims = [o.spec.optim for o in self.objectives]
        self.optimiser = of_the_kind_of(state["optimiser"], self.optimiser, optims, self.objectives[0].decayed)
        self.optimiser.restore(state["optimiser"], places)
        if self._average is not None:
            for name, value in self._average.values.items():
                value.copy_(state["average"][name][chosen])
        for name in self._buffers:
            self._buffers[name].copy_(state["buffers"][name][chosen])
        for source, noise in enumerate(self._noises):
            noise.set_state(state["noises"][places[self._source.index(source)]])

    def keep(self, places: Sequence[int]) -> None:
        """Go on with these heads alone."""
        chosen = torch.tensor(places, device=next(iter(self.optimiser.parameters.values())).device)
        self.optimiser.keep(places)
        if self._average is not None:
            self._average.keep(places)
        self.features = self.features.of(chosen)
        self._buffers = {name: b[chosen] for name, b in self._buffers.items()}
        numbers, weight, log_prior = self._per_head
        self._per_head = PerHead({n: v[chosen] for n, v in numbers.items()}, weight[chosen], log_prior[chosen])
        self.objectives = [self.objectives[i] for i in places]
        used = sorted({self._source[i] for i in places})
        self._source = [used.index(self._source[i]) for i in places]
        self._noises = [self._noises[i] for i in used]
