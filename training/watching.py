"""After an epoch: what the losses of a stack tell of themselves, and what they are shown of the selection rows."""

import torch
from torch import Tensor

from frostbench.training.engine.stack import Stack
from frostbench.training.losses.adafocal import AdaFocal


def told(stack: Stack) -> list[dict[str, float]]:
    """What each head logged since it was asked last: means over what was counted, and its class temperatures."""
    found: list[dict[str, float]] = [{} for _ in stack.objectives]
    state = stack.objectives[0].state
    if len(state.told) > 0:
        sums = stack.buffer("state.told")
        means = (sums[..., 0] / sums[..., 1].clamp(min=1)).tolist()
        found = [dict(zip(state.logged, values, strict=True)) for values in means]
        sums.zero_()
    if len(state.scatter) > 0:
        present = stack.objectives[0].facts.present
        for tree, tau in zip(found, stack.buffer("core.tau")[:, present], strict=True):
            tree |= {"tau_least": float(tau.min()), "tau_mean": float(tau.mean()), "tau_most": float(tau.max())}
    return found


@torch.no_grad()
def watch(stack: Stack, labels: Tensor, classes: int) -> None:
    """Show the selection rows, with labels [M], to a loss that follows their calibration."""
    point = stack.objectives[0].spec.loss.point
    if not isinstance(point, AdaFocal):
        return
    edges, powers = stack.buffer("state.edges"), stack.buffer("state.powers")
    for place, logits in enumerate(stack.logits(classes)):
        present = stack.objectives[place].facts.present
        sure, best = logits.index_select(-1, present).softmax(-1).max(-1)
        # Rows of classes that were never trained cannot be right, and say nothing about how sure a head may be.
        known = stack.objectives[place].facts.position[labels] >= 0
        if known.any():
            right = (present[best] == labels)[known]
            edges[place], powers[place] = point.after_epoch(powers[place], sure[known], right)
