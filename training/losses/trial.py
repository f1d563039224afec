"""A trial of a plugin's method on a few rows, before anything is trained."""

from typing import cast

import torch
from torch import Tensor

from frostbench.heads.bodies.body import Pass
from frostbench.heads.bodies.dense import linear_layer
from frostbench.heads.head import Core
from frostbench.heads.plugin_files import PluginError, not_stackable
from frostbench.training.losses.class_statistics import class_statistics_of
from frostbench.training.losses.class_weights import NoWeight
from frostbench.training.losses.method import LossMethod, LossPart
from frostbench.training.losses.scores import Branch, PointLoss, Scores, Targets
from frostbench.training.losses.step import Effect, StepContext

ROWS, CLASSES = 3, 4
OWN = torch.arange(ROWS)


def try_part(method: LossMethod, point: PointLoss, stacks: bool) -> None:
    """Build the part of a method, and take a step of it on three rows of four classes.

    Args:
        method: of a plugin.
        point: the loss of a sample that it may wrap.
        stacks: whether the step must run under `torch.func.vmap` too.

    Raises:
        PluginError: the step fails or gives no scalar, or says that it stacks and fails under vmap.
    """
    generator = torch.Generator().manual_seed(0)
    core = Core(Pass(CLASSES), linear_layer(CLASSES, CLASSES, generator))
    part = method.part(core, CLASSES, generator)
    if part is None:
        return
    for buffer in part.row_buffers:
        setattr(part, buffer, torch.zeros(ROWS))
    drawn = part.draw(method, ROWS, generator)

    def step(x: Tensor) -> Tensor:
        return _value(method, part, point, _context(core, x).with_draw(drawn))

    x = torch.linspace(-2, 2, ROWS * CLASSES).reshape(ROWS, CLASSES)
    try:
        step(x)
    except Exception as error:
        raise PluginError(
            f"a method takes a step on {ROWS} rows of {CLASSES} classes, however: {type(method).__name__} ends with "
            f"{type(error).__name__}: {error}"
        ) from error
    if stacks:
        try:
            torch.func.vmap(torch.func.grad(step))(torch.stack([x, -x]))
        except Exception as error:
            raise not_stackable(method, error) from error


def _value(method: LossMethod, part: LossPart[LossMethod], point: PointLoss, step: StepContext) -> Tensor:
    """The scalar of a step, whose buffers and logs are computed as well."""
    part.class_temperatures(method, step)
    effect: Effect = part.effect(method, step)
    wrapped = point if effect.per_sample is None else effect.per_sample(point)
    value = wrapped(Scores(step.logits, step.logits, step.logits.log_softmax(-1)), Targets(OWN)).mean()
    value = value if effect.term is None else value + effect.term()
    _, logs = ({}, {}) if effect.finish is None else effect.finish()
    if value.ndim or set(logs) != set(part.logs):
        raise ValueError(
            f"a term is a scalar and {list(part.logs)} is logged; {list(value.shape)} and {list(logs)} came."
        )
    return value


def _context(core: Core, x: Tensor) -> StepContext:
    statistics = class_statistics_of(torch.arange(CLASSES), CLASSES, NoWeight())
    return StepContext(
        core=core,
        statistics=statistics,
        progress=0.5,
        labels=OWN,
        own=OWN,
        index=OWN,
        branches=(Branch(OWN, torch.ones(ROWS)),),
        table=x,
        x=lambda: x,
        hidden=x,
        unmixed=x,
        logits=cast(Tensor, core.classifier(x)),
    )
