"""Multinomial logistic regression, solved to a certified gradient norm."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from scipy.optimize import minimize
from torch import Tensor, nn

from heads.spec import Spec


@dataclass(frozen=True)
class Solution:
    """What the solver found, and how good it is.

    Attributes:
        weight: [C, D] float64.
        bias: [C] float64.
        gradient_norm: largest absolute entry of the objective's gradient at (weight, bias).
        iterations: L-BFGS steps taken.
    """

    weight: Tensor
    bias: Tensor
    gradient_norm: float
    iterations: int


class LogisticRegression(Spec):
    """Logits are W x + b at the optimum of the convex objective, found by L-BFGS in float64.

    The objective is the mean loss + |W|^2 / (2 C N), the same optimum as scikit-learn's for weights of mean 1;
    the bias is not regularised. A default tolerance in a common solver leaves probabilities wrong by tenths, so
    the answer carries its gradient norm. Liu and Nocedal, "On the limited memory BFGS method for large scale
    optimization", Mathematical Programming 1989.
    """

    kind: Literal["logreg"] = "logreg"
    c: float = Field(default=1.0, gt=0, le=1e6)
    """Inverse strength of the L2 penalty, as in scikit-learn."""
    tolerance: float = Field(default=1e-6, ge=1e-10, le=1e-2)
    """Largest allowed absolute entry of the objective's gradient."""
    max_iterations: int = Field(default=5000, ge=1, le=1_000_000)
    """Steps after which the solver gives up; the run then says that it did not converge."""

    def build(self, dim: int, classes: int, generator: torch.Generator) -> nn.Linear:
        """A layer at zero, which `solve` fills; nothing is drawn from generator."""
        layer = nn.Linear(dim, classes, device="meta").to_empty(device="cpu")
        with torch.no_grad():
            layer.weight.zero_()
            layer.bias.zero_()
        return layer

    def solve(self, x: Tensor, mean_loss: Callable[[Tensor], Tensor], classes: int) -> Solution:
        """Minimise mean_loss(logits [N, C]) + |W|^2 / (2 C N) over W [C, D] and b [C] for features x [N, D].

        Works with an unregularised bias by keeping it as a last row of ones beside x.
        """
        rows = torch.cat([x.double(), torch.ones(len(x), 1, dtype=torch.float64, device=x.device)], 1)
        shape = (classes, rows.shape[1])

        def value_and_gradient(flat: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[float, object]:
            theta = torch.from_numpy(flat.copy()).to(x.device).view(shape).requires_grad_()
            loss = mean_loss(rows @ theta.T) + theta[:, :-1].square().sum() / (2 * self.c * len(x))
            (gradient,) = torch.autograd.grad(loss, theta)
            return loss.item(), gradient.cpu().numpy().ravel()

        # ftol 0: only the gradient may end the search. The search stops a little below the
        # tolerance, since the certificate is computed anew.
        limits = {"maxiter": self.max_iterations, "maxfun": 20 * self.max_iterations}
        settings = limits | {"gtol": 0.9 * self.tolerance, "ftol": 0.0, "maxcor": 30, "maxls": 50}
        found = minimize(value_and_gradient, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options=settings)
        gradient = np.asarray(value_and_gradient(found.x)[1])
        theta = torch.from_numpy(found.x).view(shape)
        return Solution(theta[:, :-1], theta[:, -1], float(np.abs(gradient).max()), int(found.nit))
