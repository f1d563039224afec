"""Minimisation of a smooth penalised negative log-likelihood, for calibrators with many parameters."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

Objective = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Maps flat parameters [P] float64 to the value and the gradient [P]."""
LARGEST = 20.0
"""Bound on every weight, reached if a class is perfectly separable and there is no optimum."""
LARGEST_GRADIENT = 1e-5
STARTS = 5
"""Maximum number of starts; each but the first follows a premature stop, as can happen at a bound."""


def minimum(objective: Objective, start: Tensor, bound: Tensor) -> Tensor:
    """Return the parameters [P] with the smallest value, by L-BFGS-B in float64 with exact gradients.

    Args:
        objective: returns value and gradient.
        start: initial parameters.
        bound: [P] bound on the absolute value of each parameter, or infinity.

    Raises:
        ValueError: the gradient does not become small enough.
    """
    from scipy.optimize import minimize

    def both(flat: object) -> tuple[float, object]:
        value, gradient = objective(torch.as_tensor(flat, dtype=torch.float64))
        return float(value), gradient.numpy()

    limits, at, slope, steps = [(-float(b), float(b)) for b in bound], start, math.inf, 0
    options = {"maxiter": 20_000, "maxfun": 40_000, "maxcor": 30, "ftol": 0.0, "gtol": 5e-7, "maxls": 60}
    for _ in range(STARTS):
        found = minimize(both, at.numpy(), jac=True, method="L-BFGS-B", bounds=limits, options=options)
        at, steps = torch.from_numpy(found.x), steps + int(found.nit)
        slope = float((at - (at - objective(at)[1]).clamp(-bound, bound)).abs().max())
        if slope < LARGEST_GRADIENT:
            return at
    raise ValueError(
        f"A calibration must reach its optimum, but after {steps} iterations the gradient is {slope:.1e}. Raise its "
        "penalty, or set posthoc.calibration.kind to temperature."
    )


def likelihood(scores: Tensor, labels: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weighted mean negative log-likelihood of scores [N, C], and its gradient [N, C].

    Args:
        scores: -inf for impossible classes of a row.
        labels: [N].
        share: [N] weights with sum 1.
    """
    log_p = scores.log_softmax(1)
    own = log_p.gather(1, labels[:, None]).squeeze(1)
    slope = log_p.exp()
    slope[torch.arange(len(labels)), labels] -= 1
    return -(share * own).sum(), share[:, None] * slope
