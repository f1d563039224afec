"""A step of a loss's parts on given tensors, outside any engine."""

from frostbench.training.losses.parts import LossParts
from frostbench.training.losses.step import StepContext


def context(core, statistics, labels, logits, **more):
    """Build the step context of rows with labels [N] and logits [N, C]; more overrides its other fields."""
    x = more.pop("x", logits)
    label_index = statistics.position[labels]
    fields = {"progress": 0.0, "branches": (), "index": label_index, "hidden": x, "unmixed": x, "table": x} | more
    fields |= {"core": core, "statistics": statistics, "labels": labels, "label_index": label_index}
    return StepContext(logits=logits, x=lambda: x, **fields)


def effects_of(parts: LossParts, loss, step):
    """Return the effects of a loss's parts in a step without random draws."""
    return parts.effects(loss, step, {name: () for name, _ in parts.named_parts()})
