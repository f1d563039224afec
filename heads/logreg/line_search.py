"""Step lengths of many heads at once; logits are linear in the step, so trying one costs no matrix product."""

from dataclasses import dataclass

import torch
from torch import Tensor

from frostbench.heads.classifier import MeanLosses

TRIALS = 20
STEEP, OVERSHOT = 0.9, 0.5


@dataclass(frozen=True)
class Line:
    """An objective along a direction: its slope at the start, and the penalty's three coefficients, each [K']."""

    slope: Tensor
    constant: Tensor
    linear: Tensor
    square: Tensor

    @classmethod
    def of(cls, theta: Tensor, direction: Tensor, penalty: Tensor, gradient: Tensor) -> "Line":
        """The line from theta along direction, both [K', C, P], for sum(penalty * theta^2) / 2 and the gradient."""
        pull = penalty * direction
        return cls(
            slope=(gradient * direction).sum((1, 2)),
            constant=(penalty * theta.square()).sum((1, 2)) / 2,
            linear=(pull * theta).sum((1, 2)),
            square=(pull * direction).sum((1, 2)),
        )


@dataclass(frozen=True)
class Found:
    """Where the search ended.

    Attributes:
        length: [K'] step length, 0 where it failed.
        logits, slope: [K', N, C] there, and the losses' derivative in them.
        value: [K'] the objective there.
        failed: [K'] whether no trial was good enough.
    """

    length: Tensor
    logits: Tensor
    slope: Tensor
    value: Tensor
    failed: Tensor


def evaluate(mean_losses: MeanLosses, logits: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """Mean losses [K'] in float64, and their derivative [K', N, C] in the logits."""
    leaf = logits.detach().requires_grad_()
    losses = mean_losses(leaf, index)
    (slope,) = torch.autograd.grad(losses.sum(), leaf)
    return losses.detach().double(), slope


def line_search(
    mean_losses: MeanLosses,
    index: Tensor,
    logits: Tensor,
    change: Tensor,
    line: Line,
    value: Tensor,
    rounding: float,
) -> Found:
    """Step lengths for the heads index [K'] at logits [K', N, C], which a step of length 1 moves by change.

    A length is good where the slope has left the steep part at the start (the curvature condition of Wolfe), does not
    climb by more than half of that, and the value has not risen beyond rounding. Near the optimum a value changes by
    less than its rounding while its slope is still exact, hence the test of the slope: Hager and Zhang, "A new
    conjugate gradient method with guaranteed descent and an efficient line search", SIAM J. Optim. 2005, section 4.
    """
    bracket = _Bracket(line, value + rounding * value.abs())
    left = torch.arange(len(index), device=index.device)
    found_logits, slope, found_value = logits, logits, value
    for trial in range(TRIALS + 1):
        if trial == TRIALS:
            bracket.length[left] = 0.0
        whole = len(left) == len(index)
        start, along = (logits, change) if whole else (logits[left], change[left])
        tried = start + bracket.length[left].to(along.dtype)[:, None, None] * along
        loss, tried_slope = evaluate(mean_losses, tried, index[left])
        here, bad = bracket.judge(left, loss, (tried_slope * along).sum((1, 2)).double())
        if whole:
            found_logits, slope, found_value = tried, tried_slope, here
        else:
            found_logits[left], slope[left], found_value[left] = tried, tried_slope, here
        if trial == TRIALS or not bool(bad.any()):
            break
        left = left[bad]
        bracket.narrow(left)
    failed = torch.zeros_like(value, dtype=torch.bool)
    failed[left] = trial == TRIALS
    return Found(bracket.length, found_logits, slope, found_value, failed)


class _Bracket:
    """Between which lengths the minimum of each head lies, and the length to try next."""

    def __init__(self, line: Line, allowed: Tensor) -> None:
        self.line, self.allowed = line, allowed
        self.length, self.low = torch.ones_like(allowed), torch.zeros_like(allowed)
        self.high, self.high_slope = torch.full_like(allowed, torch.inf), torch.zeros_like(allowed)
        self.low_slope = line.slope.clone()

    def judge(self, left: Tensor, loss: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
        """Value of the heads left at their length, and whether that is bad, from the loss there and its slope."""
        t, linear, square = self.length[left], self.line.linear[left], self.line.square[left]
        value = loss + self.line.constant[left] + t * linear + t * t * square / 2
        along = slope + linear + t * square
        # A value that is no number is below nothing, so it counts as too far.
        far = ~(value <= self.allowed[left]) | (along > -OVERSHOT * self.line.slope[left])
        near = ~far & (along < STEEP * self.line.slope[left])
        self.high[left[far]], self.high_slope[left[far]] = t[far], along[far]
        self.low[left[near]], self.low_slope[left[near]] = t[near], along[near]
        return value, far | near

    def narrow(self, left: Tensor) -> None:
        """Try next where the slope would be 0 were it linear; four times as far while there is no far end."""
        low, high, low_slope = self.low[left], self.high[left], self.low_slope[left]
        share = (low_slope / (low_slope - self.high_slope[left])).nan_to_num(0.5).clamp(0.1, 0.9)
        inside = low + (high.nan_to_num(posinf=0.0) - low) * share
        self.length[left] = torch.where(high.isinf(), 4 * self.length[left], inside)
