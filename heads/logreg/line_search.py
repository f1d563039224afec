"""Line search for many heads at once. Logits are linear in the step, so a trial needs no matrix product."""

from dataclasses import dataclass

import torch
from torch import Tensor

from frostbench.heads.classifier import MeanLosses

TRIALS = 20
STEEP, OVERSHOT = 0.9, 0.5


@dataclass(frozen=True)
class Line:
    """An objective along a direction: its slope at the start and the penalty's three coefficients, each [K']."""

    slope: Tensor
    constant: Tensor
    linear: Tensor
    square: Tensor

    @classmethod
    def of(cls, theta: Tensor, direction: Tensor, penalty: Tensor, gradient: Tensor) -> "Line":
        """Build the line from theta along direction, both [K', C, P], with the penalty and gradient at theta."""
        pull = penalty * direction
        return cls(
            slope=(gradient * direction).sum((1, 2)),
            constant=(penalty * theta.square()).sum((1, 2)) / 2,
            linear=(pull * theta).sum((1, 2)),
            square=(pull * direction).sum((1, 2)),
        )


@dataclass(frozen=True)
class Point:
    """The result of a line search.

    Attributes:
        length: [K'] step length, or 0 after a failure.
        logits, slope: [K', N, C] logits, and the losses' derivative with respect to them.
        value: [K'] objective.
        failed: [K'] whether no trial was acceptable.
    """

    length: Tensor
    logits: Tensor
    slope: Tensor
    value: Tensor
    failed: Tensor


def evaluate(mean_losses: MeanLosses, logits: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean losses [K'] in float64, and their derivative [K', N, C] with respect to the logits."""
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
) -> Point:
    """Search a step length for each head in index [K']; a step of length 1 moves logits [K', N, C] by change.

    A length is accepted if the slope there lies between -0.9 times (Wolfe's curvature condition) and 0.5 times the
    initial steepness, and the value has not risen by more than rounding. Near the optimum, values change by less than
    their rounding while slopes are still accurate, hence the test of the slope: Hager and Zhang, "A new
    conjugate gradient method with guaranteed descent and an efficient line search", SIAM J. Optim. 2005, section 4.
    """
    bracket = _Bracket(line, value + rounding * value.abs())
    left = torch.arange(len(index), device=index.device)
    new_logits, slope, new_value = logits, logits, value
    for trial in range(TRIALS + 1):
        if trial == TRIALS:
            bracket.length[left] = 0.0
        is_all = len(left) == len(index)
        start, along = (logits, change) if is_all else (logits[left], change[left])
        tried = start + bracket.length[left].to(along.dtype)[:, None, None] * along
        loss, tried_slope = evaluate(mean_losses, tried, index[left])
        trial_value, rejected = bracket.classify(left, loss, (tried_slope * along).sum((1, 2)).double())
        if is_all:
            new_logits, slope, new_value = tried, tried_slope, trial_value
        else:
            new_logits[left], slope[left], new_value[left] = tried, tried_slope, trial_value
        if trial == TRIALS or not bool(rejected.any()):
            break
        left = left[rejected]
        bracket.narrow(left)
    failed = torch.zeros_like(value, dtype=torch.bool)
    failed[left] = trial == TRIALS
    return Point(bracket.length, new_logits, slope, new_value, failed)


class _Bracket:
    """Bounds on each head's optimal step length, and the length to try next."""

    def __init__(self, line: Line, allowed: Tensor) -> None:
        self.line, self.allowed = line, allowed
        self.length, self.low = torch.ones_like(allowed), torch.zeros_like(allowed)
        self.high, self.high_slope = torch.full_like(allowed, torch.inf), torch.zeros_like(allowed)
        self.low_slope = line.slope.clone()

    def classify(self, left: Tensor, loss: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
        """Update the bounds of the heads left, and return their objectives and which of their lengths are rejected."""
        t, linear, square = self.length[left], self.line.linear[left], self.line.square[left]
        value = loss + self.line.constant[left] + t * linear + t * t * square / 2
        along = slope + linear + t * square
        # The comparison is false for NaN, which therefore counts as too far.
        far = ~(value <= self.allowed[left]) | (along > -OVERSHOT * self.line.slope[left])
        near = ~far & (along < STEEP * self.line.slope[left])
        self.high[left[far]], self.high_slope[left[far]] = t[far], along[far]
        self.low[left[near]], self.low_slope[left[near]] = t[near], along[near]
        return value, far | near

    def narrow(self, left: Tensor) -> None:
        """Set the next length: where the interpolated slope is 0, or four times the last without an upper bound."""
        low, high, low_slope = self.low[left], self.high[left], self.low_slope[left]
        share = (low_slope / (low_slope - self.high_slope[left])).nan_to_num(0.5).clamp(0.1, 0.9)
        inside = low + (high.nan_to_num(posinf=0.0) - low) * share
        self.length[left] = torch.where(high.isinf(), 4 * self.length[left], inside)
