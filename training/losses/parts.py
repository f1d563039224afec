"""The parts that the methods of a loss build for one head, joined: what the engine calls in their stead."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from torch import Tensor, nn

from frostbench.heads.head import Core
from frostbench.training.losses.class_statistics import ClassStatistics
from frostbench.training.losses.loss import LossSpec
from frostbench.training.losses.method import LossMethod, LossPart, Setup
from frostbench.training.losses.scores import PointLoss
from frostbench.training.losses.step import Effect, StepContext, Updates

if TYPE_CHECKING:
    from frostbench.training.data.train_rows import TrainRows


class LossParts(nn.ModuleDict):
    """Parts by the field of their method, in the order of the catalogue, which is that of their random draws.

    Buffers are named `FIELD.BUFFER` in what a step returns.

    Attributes:
        logged: names of what parts log in a step.
        sums: [L, 2] sums and counts of it since the epoch began.
    """

    sums: Tensor

    def __init__(self, loss: LossSpec, core: Core, classes: int, generator: torch.Generator) -> None:
        built = {name: method.resolved().part(core, classes, generator) for name, method in loss.methods.items()}
        super().__init__({name: part for name, part in built.items() if part is not None})
        self.logged = tuple(dict.fromkeys(name for _, part in self.each() for name in part.logs))
        self.needs = frozenset(need for name, _ in self.each() for need in method_at(loss, name).needs)
        self.register_buffer("sums", torch.zeros(len(self.logged), 2))

    def each(self) -> Iterator[tuple[str, LossPart[Any]]]:
        """Yield the parts with their names."""
        return cast("Iterator[tuple[str, LossPart[Any]]]", iter(self.items()))

    def of(self, name: str) -> LossPart[Any]:
        """Return the part of that name."""
        return cast("LossPart[Any]", self[name])

    @property
    def row_buffers(self) -> dict[str, Literal["set", "add"]]:
        """How an update of each buffer with an entry for every training row changes it, by name."""
        return {f"{name}.{buffer}": how for name, part in self.each() for buffer, how in part.row_buffers.items()}

    @torch.no_grad()
    def prepare(
        self, loss: LossSpec, rows: "TrainRows", statistics: ClassStatistics, core: Core, first: "LossParts"
    ) -> None:
        """Size the buffers of rows, and let parts measure what they start from; first holds those of the first head."""
        for name, part in self.each():
            for buffer in part.row_buffers:
                setattr(part, buffer, getattr(part, buffer).new_zeros(len(rows.labels)))
            part.prepare(method_at(loss, name), Setup(rows, statistics, core, first.of(name)))

    def draw(self, loss: LossSpec, rows: int, generator: torch.Generator) -> dict[str, Any]:
        """Draw the random tensors of a step, by part."""
        return {name: part.draw(method_at(loss, name), rows, generator) for name, part in self.each()}

    @torch.no_grad()
    def class_temperatures(self, loss: LossSpec, step: StepContext) -> tuple[Tensor | None, Updates]:
        """Return the temperatures [C] of the first part with some, or the head's own; and buffers after the step."""
        for name, part in self.each():
            found = part.class_temperatures(method_at(loss, name), step)
            if found is not None:
                return step.statistics.over_all(found[0]), _named(name, found[1])
        return step.core.tau, {}

    def effects(self, loss: LossSpec, step: StepContext, drawn: Mapping[str, Any]) -> "Effects":
        """Return what all parts do in a step."""
        found = {}
        for name, part in self.each():
            found[name] = part.effect(method_at(loss, name), step.with_draw(drawn[name]))
        return Effects(found, self)

    @property
    def rates(self) -> dict[str, float]:
        """Factors on the learning rates of parameters that have their own, by name."""
        own = [(name, part) for name, part in self.each() if part.lr_factor != 1]
        return {f"{name}.{at}": part.lr_factor for name, part in own for at, _ in part.named_parameters()}

    def decay_factors(self) -> Tensor | None:
        """Return factors [C, 1] on the weight decay of the classifier's rows, or None where no part has any."""
        found = [factors for _, part in self.each() if (factors := part.decay_factors()) is not None]
        return torch.stack(found).prod(0) if len(found) > 1 else found[0] if found else None


class Effects:
    """What the methods of a loss do in one step."""

    def __init__(self, effects: Mapping[str, Effect], parts: LossParts) -> None:
        self._effects, self._parts = effects, parts

    def wrapped(self, point: PointLoss) -> PointLoss:
        """Return the point loss of the step."""
        for effect in self._effects.values():
            point = point if effect.per_sample is None else effect.per_sample(point)
        return point

    def with_terms(self, mean: Tensor) -> Tensor:
        """Return a mean, a scalar, with the terms added.

        Those that go by a history of rows come after the sum of the others, so that reported losses stay to the bit.
        """
        total, late = mean.new_zeros(()), []
        for name, effect in self._effects.items():
            if effect.term is not None and self._parts.of(name).row_buffers:
                late.append(effect.term)
            elif effect.term is not None:
                total = total + effect.term()
        value = mean + total
        for term in late:
            value = value + term()
        return value

    def finished(self) -> Updates:
        """Return the buffers after the step, those of what is logged among them."""
        updates: Updates = {}
        logs: dict[str, Tensor] = {}
        for name, effect in self._effects.items():
            if effect.finish is not None:
                buffers, logged = effect.finish()
                updates |= _named(name, buffers)
                logs |= {key: logs[key] + value if key in logs else value for key, value in logged.items()}
        if logs:
            updates["sums"] = self._parts.sums + torch.stack([logs[name] for name in self._parts.logged])
        return updates


def method_at(loss: LossSpec, name: str) -> LossMethod:
    """Return the method in a field of a loss, which may hold swept numbers of one head."""
    return cast(LossMethod, getattr(loss, name)).resolved()


def _named(name: str, buffers: Mapping[str, Tensor]) -> Updates:
    return {f"{name}.{buffer}": value for buffer, value in buffers.items()}
