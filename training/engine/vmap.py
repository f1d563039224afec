"""What heads of a stack have in common, and what each has for itself."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from frostbench.heads.bodies.dense import Dense
from frostbench.heads.spec import numbers
from frostbench.training.engine.objective import Objective
from frostbench.training.engine.step_inputs import PerHead


def lifted_numbers(objective: Objective) -> dict[str, float]:
    """The swept numbers that a step reads, by dotted path; learning rates and the like are the optimiser's."""
    outside = objective.spec.outside_steps
    found = {f"train.{path}": n for path, n in numbers(objective.spec).items() if not path.startswith(outside)}
    return found | {f"classifier.{path}": number for path, number in numbers(objective.classifier).items()}


def own_of(objectives: Sequence[Objective]) -> PerHead:
    """What the heads have for themselves, [K, ...]; numbers that are the same for all stay in the specs."""
    each = [lifted_numbers(o) for o in objectives]
    like = next(objectives[0].parameters())
    differing = [path for path in each[0] if len({found[path] for found in each}) > 1]
    lifted = {path: like.new_tensor([found[path] for found in each]) for path in differing}
    statistics = [o.statistics for o in objectives]
    weight = torch.stack([f.weight for f in statistics])
    return PerHead(lifted, weight, torch.stack([f.log_prior_effective for f in statistics]))


def first(own: PerHead) -> PerHead:
    """What the first of several heads has for itself, whose numbers are those of its specs."""
    return PerHead({}, own.weight[0], own.log_prior[0])


def sources_of(
    objectives: Sequence[Objective], noises: Sequence[torch.Generator]
) -> tuple[list[torch.Generator], list[int]]:
    """Generators to draw from, and which of them each head uses: heads with the same draws share one.

    A generator that starts in the same state, asked for the same things, gives the same numbers.
    """
    keys = [(g.initial_seed(), o.spec.mixing) for o, g in zip(objectives, noises, strict=True)]
    distinct = list(dict.fromkeys(keys))
    return [noises[keys.index(key)] for key in distinct], [distinct.index(key) for key in keys]


def wide_copy(objective: Objective) -> Objective:
    """A copy that stands for all heads; its own parameters are never read."""
    template = copy.deepcopy(objective)
    for module in template.modules():
        if isinstance(module, Dense):
            module.wide = True
    return template


def leading(items: Sequence[Any]) -> Any:
    """Trees of the same shape as one whose tensors lead with a dimension for the items."""
    first = items[0]
    if isinstance(first, Tensor):
        return torch.stack(list(items))
    if isinstance(first, dict):
        return {name: leading([item[name] for item in items]) for name in first}
    parts = [leading(part) for part in zip(*items, strict=True)]
    return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
