"""L-BFGS for many linear heads on the same rows: one matrix product for all of them in each half of a step.

Liu and Nocedal, "On the limited memory BFGS method for large scale optimization", Mathematical Programming 1989. Each
head has its own history, step length and end; heads that have ended leave the batch.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from frostbench.heads.classifier import MeanLosses
from frostbench.heads.logreg.curvature import Curvature, Pairs, curvature_of, remember, times_inverse_hessian
from frostbench.heads.logreg.line_search import Line, evaluate, line_search

REFRESH = 10
"""Steps between two first guesses of the Hessian."""


@dataclass(frozen=True)
class Stage:
    """One precision of the search.

    Attributes:
        dtype: of the products and the losses.
        precise: whether it goes on to the tolerance, by the norm that counts.
        rounding: part of a value by which that may seem to rise from rounding alone.
        failures: line searches without a point, in a row, after which a head leaves.
        patience: steps without a smaller gradient after which a head leaves, for rounding is what it sees by then.
    """

    dtype: torch.dtype
    precise: bool
    rounding: float
    failures: int
    patience: int


STAGES = (Stage(torch.float32, False, 1e-6, 1, 30), Stage(torch.float64, True, 1e-13, 2, 300))
ROUGH = 3e-6
"""Gradient at which float32 hands over to float64: about what its rounding allows."""


@dataclass(frozen=True)
class Problem:
    """K heads theta [C, P], each minimising its mean loss of rows @ theta.T + sum(penalty * theta^2) / 2.

    Attributes:
        rows: [N, P] float64.
        spread: [P] mean square of each column of rows.
        penalty: [K, 1, P] float64, 0 where a coordinate is free.
        mean_losses: mean loss [K'] of logits [K', N, C] for the heads index [K'].
        classes: C.
        norm: the norm [K'] that counts of gradients [K', C, P].
        tolerance: [K] norm at which a head is done.
        max_steps: [K] steps after which a head is given up.
    """

    rows: Tensor
    spread: Tensor
    penalty: Tensor
    mean_losses: MeanLosses
    classes: int
    norm: Callable[[Tensor], Tensor]
    tolerance: Tensor
    max_steps: Tensor


@dataclass(frozen=True)
class Active:
    """The heads still searched, all tensors with a leading [K'].

    Attributes:
        index: which heads they are.
        theta, gradient: [K', C, P] float64.
        logits: [K', N, C] in the precision of the stage.
        value: the objective.
        penalty: [K', 1, P].
        pairs: the history, oldest first.
        steps: steps taken in all stages.
        best, since: the smallest gradient of this stage, and the steps since it was found.
        failures: line searches in a row that found no point.
    """

    index: Tensor
    theta: Tensor
    logits: Tensor
    value: Tensor
    gradient: Tensor
    penalty: Tensor
    pairs: Pairs
    steps: Tensor
    best: Tensor
    since: Tensor
    failures: Tensor

    def keep(self, mask: Tensor) -> "Active":
        """The heads where mask [K'] holds."""
        return Active(
            self.index[mask],
            self.theta[mask],
            self.logits[mask],
            self.value[mask],
            self.gradient[mask],
            self.penalty[mask],
            tuple(pair.keep(mask) for pair in self.pairs),
            self.steps[mask],
            self.best[mask],
            self.since[mask],
            self.failures[mask],
        )


def minimise(problem: Problem) -> tuple[Tensor, Tensor]:
    """Search all heads from zero; returns theta [K, C, P] float64 and the steps taken [K].

    A float32 stage does most of the way at half the cost, and a float64 stage ends it. The history is float32 in both:
    it only shapes the direction, while points, values and gradients of the second stage are float64.
    """
    heads = len(problem.penalty)
    theta = problem.rows.new_zeros(heads, problem.classes, problem.rows.shape[1])
    steps = torch.zeros(heads, dtype=torch.int64, device=theta.device)
    for stage in STAGES:
        _search(problem, theta, steps, stage)
    return theta, steps


def _search(problem: Problem, theta: Tensor, steps: Tensor, stage: Stage) -> None:
    """Search all heads in one precision, updating theta and steps in place."""
    rows = problem.rows.to(stage.dtype)
    active = _begin(problem, rows, theta, steps)
    curvature: Curvature | None = None
    count = 0
    while True:
        ended = _ended(problem, active, stage)
        if bool(ended.any()):
            theta[active.index[ended]] = active.theta[ended]
            steps[active.index[ended]] = active.steps[ended]
            active = active.keep(~ended)
            curvature = curvature.keep(~ended) if curvature else None
        if len(active.index) == 0:
            return
        if curvature is None or count % REFRESH == 0:
            curvature = curvature_of(active.logits, active.gradient, problem.spread, active.penalty)
        active = _advance(problem, rows, active, curvature, stage)
        count += 1


def _begin(problem: Problem, rows: Tensor, theta: Tensor, steps: Tensor) -> Active:
    index = torch.arange(len(theta), device=theta.device)
    logits = _logits(rows, theta)
    loss, slope = evaluate(problem.mean_losses, logits, index)
    gradient = _gradient(slope, rows) + problem.penalty * theta
    value = loss + (problem.penalty * theta.square()).sum((1, 2)) / 2
    best, zero = torch.full_like(value, torch.inf), torch.zeros_like(index)
    return Active(index, theta.clone(), logits, value, gradient, problem.penalty, (), steps.clone(), best, zero, zero)


def _ended(problem: Problem, active: Active, stage: Stage) -> Tensor:
    """Which heads [K'] leave the stage: done, given up, or no longer getting anywhere."""
    given_up = active.steps >= problem.max_steps[active.index]
    lost = (active.failures >= stage.failures) | (active.since > stage.patience)
    tolerance = problem.tolerance[active.index]
    if not stage.precise:
        return given_up | lost | (active.gradient.abs().amax((1, 2)) <= tolerance.clamp_min(ROUGH))
    # No norm of the gradient's entries is below their root mean square, which rotations leave alone.
    done = active.gradient.square().mean((1, 2)).sqrt() <= tolerance
    if bool(done.any()):
        done[done.clone()] = problem.norm(active.gradient[done]) <= tolerance[done]
    return given_up | lost | done


def _advance(problem: Problem, rows: Tensor, active: Active, curvature: Curvature, stage: Stage) -> Active:
    """One step of every head."""
    direction = -times_inverse_hessian(active.gradient, active.pairs, curvature).double()
    change = _logits(rows, direction)
    line = Line.of(active.theta, direction, active.penalty, active.gradient)
    found = line_search(problem.mean_losses, active.index, active.logits, change, line, active.value, stage.rounding)
    step = found.length[:, None, None] * direction
    theta = active.theta + step
    gradient = _gradient(found.slope, rows) + active.penalty * theta
    size = gradient.square().mean((1, 2)).sqrt()
    better = size < active.best
    return replace(
        active,
        theta=theta,
        logits=found.logits,
        value=found.value,
        gradient=gradient,
        pairs=remember(active.pairs, step, gradient - active.gradient, found.failed),
        steps=active.steps + 1,
        best=torch.minimum(size, active.best),
        since=torch.where(better, 0, active.since + 1),
        failures=torch.where(found.failed, active.failures + 1, 0),
    )


def _logits(rows: Tensor, theta: Tensor) -> Tensor:
    """[K', N, C] of rows [N, P] and theta [K', C, P], as one product."""
    flat = rows @ theta.to(rows.dtype).flatten(0, 1).T
    return flat.view(len(rows), len(theta), -1).transpose(0, 1)


def _gradient(slope: Tensor, rows: Tensor) -> Tensor:
    """[K', C, P] float64 of the losses' slopes [K', N, C] in the logits, as one product."""
    flat = slope.transpose(1, 2).flatten(0, 1) @ rows
    return flat.view(len(slope), -1, rows.shape[1]).double()
