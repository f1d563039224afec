"""A step of a loss's parts on given tensors, outside any engine."""

from frostbench.training.losses.parts import LossParts
from frostbench.training.losses.step import StepContext


def context(core, statistics, labels, logits, **more):
    """What a part reads of rows with labels [N] and logits [N, C]; features and the like come as more."""
    x = more.pop("x", logits)
    own = statistics.position[labels]
    told = {"progress": 0.0, "branches": (), "index": own, "hidden": x, "unmixed": x, "table": x} | more
    return StepContext(core=core, statistics=statistics, labels=labels, own=own, logits=logits, x=lambda: x, **told)


def effects_of(parts: LossParts, loss, step):
    """What the parts of a loss do in a step, with nothing drawn."""
    return parts.effects(loss, step, {name: () for name, _ in parts.each()})
