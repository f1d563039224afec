"""Multinomial logistic regression, solved to a certified gradient norm."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from heads.spec import Spec

Flat = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass(frozen=True)
class Solution:
    """What the solver found, and how good it is.

    Attributes:
        weight: [C, D] float64.
        bias: [C] float64.
        gradient_norm: largest absolute entry of the objective's gradient at (weight, bias), before these are
            rounded to the head's float32.
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
        """Minimise mean_loss(logits [N, C]) + |W|^2 / (2 C N) over W [C, D] and b [C] for features x [N, D]."""
        exact = x.double()
        # Centring moves W x into the free bias, so the optimum stays; it takes the search far fewer steps.
        mean = exact.mean(0)
        rows = torch.cat([exact - mean, torch.ones_like(exact[:, :1])], 1)
        found = np.zeros(classes * rows.shape[1])
        steps = 0
        # The search sees the centred gradient, the certificate the stated one: go on until that is small enough.
        for tolerance in (self.tolerance, self.tolerance / 10, self.tolerance / 100):
            found, taken = self._search(rows, mean_loss, found, tolerance, self.max_iterations - steps)
            theta = torch.from_numpy(found).to(x.device).view(classes, -1)
            weight = theta[:, :-1]
            bias = theta[:, -1] - weight @ mean
            norm = self._gradient_norm(exact, mean_loss, weight, bias)
            steps += taken
            if norm <= self.tolerance or steps >= self.max_iterations:
                break
        return Solution(weight, bias, norm, steps)

    def _search(
        self, rows: Tensor, mean_loss: Callable[[Tensor], Tensor], start: Flat, tolerance: float, steps: int
    ) -> tuple[Flat, int]:
        """L-BFGS from start over theta = [W, b] for rows with a last entry of one; also the steps taken."""

        def value_and_gradient(flat: Flat) -> tuple[float, Flat]:
            theta = torch.from_numpy(flat.copy()).to(rows.device).view(-1, rows.shape[1]).requires_grad_()
            loss = mean_loss(rows @ theta.T) + theta[:, :-1].square().sum() / (2 * self.c * len(rows))
            (gradient,) = torch.autograd.grad(loss, theta)
            return loss.item(), gradient.cpu().numpy().ravel()

        # ftol 0: only the gradient may end the search.
        settings = {"maxiter": steps, "maxfun": 20 * steps, "gtol": tolerance, "ftol": 0.0, "maxcor": 20, "maxls": 50}
        from scipy.optimize import minimize

        found = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options=settings)
        return found.x, int(found.nit)

    def _gradient_norm(self, x: Tensor, mean_loss: Callable[[Tensor], Tensor], weight: Tensor, bias: Tensor) -> float:
        """Largest absolute entry of the objective's gradient at weight [C, D] and bias [C]."""
        w, b = weight.clone().requires_grad_(), bias.clone().requires_grad_()
        value = mean_loss(x @ w.T + b) + w.square().sum() / (2 * self.c * len(x))
        return max(float(g.abs().max()) for g in torch.autograd.grad(value, [w, b]))
