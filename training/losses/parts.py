"""The loss parts of one head, combined into what the engine calls."""

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
    """Parts by the field of their method, in catalogue order, which is also the order of their random draws.

    Updated buffers are named `FIELD.BUFFER`.

    Attributes:
        logged: names of the values that parts log in a step.
        sums: [L, 2] sums and counts of these values since the start of the epoch.
    """

    sums: Tensor

    def __init__(self, loss: LossSpec, core: Core, classes: int, generator: torch.Generator) -> None:
        built = {name: method.resolved().part(core, classes, generator) for name, method in loss.methods.items()}
        super().__init__({name: part for name, part in built.items() if part is not None})
        self.logged = tuple(dict.fromkeys(log for _, part in self.named_parts() for log in part.logs))
        self.needs = frozenset(need for name, _ in self.named_parts() for need in method_at(loss, name).needs)
        self.register_buffer("sums", torch.zeros(len(self.logged), 2))

    def named_parts(self) -> Iterator[tuple[str, LossPart[Any]]]:
        """Yield each field name with its part."""
        return cast("Iterator[tuple[str, LossPart[Any]]]", iter(self.items()))

    def of(self, name: str) -> LossPart[Any]:
        """Return the part with this field name."""
        return cast("LossPart[Any]", self[name])

    @property
    def row_buffers(self) -> dict[str, Literal["set", "add"]]:
        """Update mode of each buffer with one entry per training row, by buffer name."""
        return {
            f"{name}.{buffer}": how for name, part in self.named_parts() for buffer, how in part.row_buffers.items()
        }

    @torch.no_grad()
    def prepare(
        self, loss: LossSpec, rows: "TrainRows", statistics: ClassStatistics, core: Core, first: "LossParts"
    ) -> None:
        """Size the row buffers and let each part measure its initial state; `first` holds the first head's parts."""
        for name, part in self.named_parts():
            for buffer in part.row_buffers:
                setattr(part, buffer, getattr(part, buffer).new_zeros(len(rows.labels)))
            part.prepare(method_at(loss, name), Setup(rows, statistics, core, first.of(name)))

    def draw(self, loss: LossSpec, rows: int, generator: torch.Generator) -> dict[str, Any]:
        """Draw the random tensors of a step, by part."""
        return {name: part.draw(method_at(loss, name), rows, generator) for name, part in self.named_parts()}

    @torch.no_grad()
    def class_temperatures(self, loss: LossSpec, step: StepContext) -> tuple[Tensor | None, Updates]:
        """Return the class temperatures [C] and the updated buffers.

        The temperatures are those of the first part that returns any, or the head's own.
        """
        for name, part in self.named_parts():
            result = part.class_temperatures(method_at(loss, name), step)
            if result is not None:
                return step.statistics.over_all(result[0]), _named(name, result[1])
        return step.core.tau, {}

    def effects(self, loss: LossSpec, step: StepContext, drawn: Mapping[str, Any]) -> "Effects":
        """Return the contributions of all parts to a step."""
        return Effects(
            {
                name: part.effect(method_at(loss, name), step.with_draw(drawn[name]))
                for name, part in self.named_parts()
            },
            self,
        )

    @property
    def rates(self) -> dict[str, float]:
        """Learning-rate factors other than 1, by parameter name."""
        return {
            f"{name}.{parameter}": part.lr_factor
            for name, part in self.named_parts()
            if part.lr_factor != 1
            for parameter, _ in part.named_parameters()
        }

    def decay_factors(self) -> Tensor | None:
        """Return factors [C, 1] on the weight decay of the classifier's rows, or None if no part changes it."""
        factors = [f for _, part in self.named_parts() if (f := part.decay_factors()) is not None]
        return torch.stack(factors).prod(0) if len(factors) > 1 else factors[0] if factors else None


class Effects:
    """The contributions of a loss's methods to one step."""

    def __init__(self, effects: Mapping[str, Effect], parts: LossParts) -> None:
        self._effects, self._parts = effects, parts

    def wrapped(self, point: PointLoss) -> PointLoss:
        """Return the point loss of the step, wrapped by every method that wraps it."""
        for effect in self._effects.values():
            point = point if effect.per_sample is None else effect.per_sample(point)
        return point

    def with_terms(self, mean: Tensor) -> Tensor:
        """Return the mean of the point loss, a scalar, with the terms added.

        Terms that use a history of rows are added after the sum of the others: this summation order keeps reported
        losses identical to the bit.
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
        """Return the buffers after the step, including the sums of logged values."""
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
    """Return the method in a field of a loss, which may hold the swept numbers of one head."""
    return cast(LossMethod, getattr(loss, name)).resolved()


def _named(name: str, buffers: Mapping[str, Tensor]) -> Updates:
    return {f"{name}.{buffer}": value for buffer, value in buffers.items()}
