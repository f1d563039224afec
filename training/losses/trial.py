"""A trial step of a plugin's method on a few rows, before anything is trained."""

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
from frostbench.training.losses.step import StepContext

ROWS, CLASSES = 3, 4
LABELS = torch.arange(ROWS)


def try_part(method: LossMethod, point: PointLoss, stacks: bool) -> None:
    """Build the part of a plugin's method, and run a step of it on three rows of four classes.

    Args:
        method: the plugin's method.
        point: loss per sample that the method may wrap.
        stacks: whether the step must also run under `torch.func.vmap`.

    Raises:
        PluginError: the step fails or does not return a scalar, or the method claims to stack and fails under vmap.
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
            f"a method must run a step on {ROWS} rows of {CLASSES} classes, but {type(method).__name__} raised "
            f"{type(error).__name__}: {error}"
        ) from error
    if stacks:
        try:
            torch.func.vmap(torch.func.grad(step))(torch.stack([x, -x]))
        except Exception as error:
            raise not_stackable(method, error) from error


def _value(method: LossMethod, part: LossPart[LossMethod], point: PointLoss, step: StepContext) -> Tensor:
    """Return the scalar of a step, after computing its buffers and logs too."""
    part.class_temperatures(method, step)
    effect = part.effect(method, step)
    wrapped = point if effect.per_sample is None else effect.per_sample(point)
    value = wrapped(Scores(step.logits, step.logits, step.logits.log_softmax(-1)), Targets(LABELS)).mean()
    value = value if effect.term is None else value + effect.term()
    logs = {} if effect.finish is None else effect.finish()[1]
    if value.ndim or set(logs) != set(part.logs):
        raise ValueError(
            f"a step must add a scalar and log {list(part.logs)}, got shape {list(value.shape)} and logs {list(logs)}. "
            "Correct the part's effect."
        )
    return value


def _context(core: Core, x: Tensor) -> StepContext:
    return StepContext(
        core=core,
        statistics=class_statistics_of(torch.arange(CLASSES), CLASSES, NoWeight()),
        progress=0.5,
        labels=LABELS,
        label_index=LABELS,
        index=LABELS,
        branches=(Branch(LABELS, torch.ones(ROWS)),),
        table=x,
        x=lambda: x,
        hidden=x,
        unmixed=x,
        logits=cast(Tensor, core.classifier(x)),
    )
