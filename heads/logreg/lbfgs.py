"""L-BFGS for many linear heads on the same rows, which share one forward and one backward matrix product per step.

Liu and Nocedal, "On the limited memory BFGS method for large scale optimization", Mathematical Programming 1989. Each
head has its own history, step length and stopping time; finished heads leave the batch.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from frostbench.heads.classifier import MeanLosses
from frostbench.heads.logreg.curvature import Curvature, Pairs, curvature_of, remember, times_inverse_hessian
from frostbench.heads.logreg.line_search import Line, evaluate, line_search

REFRESH = 10
"""Steps between updates of the initial Hessian."""


@dataclass(frozen=True)
class Stage:
    """A stage of the search in one precision.

    Attributes:
        dtype: precision of the products and the losses.
        precise: whether it continues until the final norm reaches the tolerance.
        rounding: relative increase of the objective that rounding alone can cause.
        failures: consecutive failed line searches after which a head leaves.
        patience: steps without a smaller gradient after which a head leaves, because only rounding is left.
    """

    dtype: torch.dtype
    precise: bool
    rounding: float
    failures: int
    patience: int


STAGES = (Stage(torch.float32, False, 1e-6, 1, 30), Stage(torch.float64, True, 1e-13, 2, 300))
ROUGH = 3e-6
"""Largest absolute gradient entry at which the float32 stage ends, close to the limit of float32 rounding."""


@dataclass(frozen=True)
class Problem:
    """K heads theta [C, P], each of which minimises mean_loss(rows @ theta.T) + sum(penalty * theta^2) / 2.

    Attributes:
        rows: [N, P] float64.
        spread: [P] mean square of each column of rows.
        penalty: [K, 1, P] float64, 0 for unpenalised coordinates.
        mean_losses: maps logits [K', N, C] and head indices [K'] to mean losses [K'].
        classes: C.
        norm: maps gradients [K', C, P] to the norms [K'] that decide convergence.
        tolerance: [K] norm at which a head has converged.
        max_steps: [K] maximum number of steps.
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
    """The heads that are still being optimised; all tensors have a leading [K'].

    Attributes:
        index: indices of these heads.
        theta, gradient: [K', C, P] float64.
        logits: [K', N, C] in the precision of the stage.
        value: the objective.
        penalty: [K', 1, P].
        pairs: the history, oldest first.
        steps: steps taken in all stages.
        best, since: the smallest gradient in this stage, and the steps since then.
        failures: consecutive failed line searches.
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
        """Return the heads in mask [K']."""
        kept = {f.name: getattr(self, f.name)[mask] for f in fields(self) if f.name != "pairs"}
        return Active(**kept, pairs=tuple(pair.keep(mask) for pair in self.pairs))


def minimise(problem: Problem) -> tuple[Tensor, Tensor]:
    """Minimise all heads' objectives from zero, and return theta [K, C, P] float64 and the number of steps [K].

    A float32 stage does most of the work at half the cost, and a float64 stage finishes it. The history is float32 in
    both, because it only affects the direction; points, values and gradients of the second stage are float64.
    """
    heads = len(problem.penalty)
    theta = problem.rows.new_zeros(heads, problem.classes, problem.rows.shape[1])
    steps = torch.zeros(heads, dtype=torch.int64, device=theta.device)
    for stage in STAGES:
        _search(problem, theta, steps, stage)
    return theta, steps


def _search(problem: Problem, theta: Tensor, steps: Tensor, stage: Stage) -> None:
    """Minimise all heads' objectives in one precision, updating theta and steps in place."""
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
    """Return which heads [K'] leave the stage: converged, out of steps, or without progress."""
    out_of_steps = active.steps >= problem.max_steps[active.index]
    stalled = (active.failures >= stage.failures) | (active.since > stage.patience)
    tolerance = problem.tolerance[active.index]
    if not stage.precise:
        return out_of_steps | stalled | (active.gradient.abs().amax((1, 2)) <= tolerance.clamp_min(ROUGH))
    # The final norm needs a matrix product, so only heads with a small root mean square gradient get that far.
    converged = active.gradient.square().mean((1, 2)).sqrt() <= tolerance
    if bool(converged.any()):
        converged[converged.clone()] = problem.norm(active.gradient[converged]) <= tolerance[converged]
    return out_of_steps | stalled | converged


def _advance(problem: Problem, rows: Tensor, active: Active, curvature: Curvature, stage: Stage) -> Active:
    """Take one step with every head."""
    direction = -times_inverse_hessian(active.gradient, active.pairs, curvature).double()
    change = _logits(rows, direction)
    line = Line.of(active.theta, direction, active.penalty, active.gradient)
    point = line_search(problem.mean_losses, active.index, active.logits, change, line, active.value, stage.rounding)
    step = point.length[:, None, None] * direction
    theta = active.theta + step
    gradient = _gradient(point.slope, rows) + active.penalty * theta
    size = gradient.square().mean((1, 2)).sqrt()
    better = size < active.best
    return replace(
        active,
        theta=theta,
        logits=point.logits,
        value=point.value,
        gradient=gradient,
        pairs=remember(active.pairs, step, gradient - active.gradient, point.failed),
        steps=active.steps + 1,
        best=torch.minimum(size, active.best),
        since=torch.where(better, 0, active.since + 1),
        failures=torch.where(point.failed, active.failures + 1, 0),
    )


def _logits(rows: Tensor, theta: Tensor) -> Tensor:
    """Return logits [K', N, C] of rows [N, P] and theta [K', C, P], as one product."""
    flat = rows @ theta.to(rows.dtype).flatten(0, 1).T
    return flat.view(len(rows), len(theta), -1).transpose(0, 1)


def _gradient(slope: Tensor, rows: Tensor) -> Tensor:
    """Return gradients [K', C, P] float64 from the losses' slopes [K', N, C] over the logits, as one product."""
    flat = slope.transpose(1, 2).flatten(0, 1) @ rows
    return flat.view(len(slope), -1, rows.shape[1]).double()
