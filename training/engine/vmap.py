"""Tensors with a leading dimension of K heads, and what the heads of a stack share."""

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
    """Return the swept numbers that a step reads, by dotted path below "train" and "classifier"."""
    outside = objective.spec.outside_steps
    read = {path: number for path, number in numbers(objective.spec).items() if not path.startswith(outside)}
    swept = {f"train.{path}": number for path, number in read.items()}
    return swept | {f"classifier.{path}": number for path, number in numbers(objective.classifier).items()}


def per_head_of(objectives: Sequence[Objective]) -> PerHead:
    """Stack the per-head values into [K, ...]; numbers that are equal for all heads stay in the specs."""
    numbers_of_heads = [lifted_numbers(o) for o in objectives]
    like = next(objectives[0].parameters())
    differing = [path for path in numbers_of_heads[0] if len({head[path] for head in numbers_of_heads}) > 1]
    lifted = {path: like.new_tensor([head[path] for head in numbers_of_heads]) for path in differing}
    statistics = [o.statistics for o in objectives]
    weight = torch.stack([f.weight for f in statistics])
    return PerHead(lifted, weight, torch.stack([f.log_prior_effective for f in statistics]))


def first(per_head: PerHead) -> PerHead:
    """Return the values of the first head, whose numbers are those of its specs."""
    return PerHead({}, per_head.weight[0], per_head.log_prior[0])


def sources_of(
    objectives: Sequence[Objective], noises: Sequence[torch.Generator]
) -> tuple[list[torch.Generator], list[int]]:
    """Return the distinct generators and the index of the one that each head uses.

    Heads share a generator if theirs have the same seed and their mixing options are equal.
    """
    keys = [(g.initial_seed(), o.spec.mixing) for o, g in zip(objectives, noises, strict=True)]
    distinct = list(dict.fromkeys(keys))
    return [noises[keys.index(key)] for key in distinct], [distinct.index(key) for key in keys]


def wide_copy(objective: Objective) -> Objective:
    """Copy an objective as the template of all heads; the template's own parameters are never read."""
    template = copy.deepcopy(objective)
    for module in template.modules():
        if isinstance(module, Dense):
            module.wide = True
    return template


def leading(items: Sequence[Any]) -> Any:
    """Stack trees of the same structure into one, whose tensors have a leading dimension of the items."""
    first = items[0]
    if isinstance(first, Tensor):
        return torch.stack(list(items))
    if isinstance(first, dict):
        return {name: leading([item[name] for item in items]) for name in first}
    parts = [leading(part) for part in zip(*items, strict=True)]
    return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
