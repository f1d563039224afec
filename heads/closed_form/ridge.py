"""Ridge regression on the class indicators: a linear classifier in closed form."""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.bodies.dense import Dense
from frostbench.heads.classifier import Remark
from frostbench.heads.closed_form.eigen import Eigenbasis, eigenbasis
from frostbench.heads.closed_form.fitted import FittedClassifier
from frostbench.heads.closed_form.solved import solved_layer
from frostbench.heads.fitting_rows import Rows

GRID = tuple(10 ** (k / 4) for k in range(-24, 17))
"""Penalties that the leave-one-out rule chooses from: 1e-6 to 1e4, four per power of ten."""


class Ridge(FittedClassifier):
    """Logits are W x + b, the weighted least-squares fit of +1 for the true class and -1 for the others.

    It minimises sum_i w_i |t_i - W x_i - b|^2 / N + s |W|^2 for weights of mean 1, where s is the strength times the
    mean variance of a feature; b is not regularised. The logits are regression scores, not log-probabilities:
    without a temperature fitted afterwards, probabilities are far too uniform. Hoerl and Kennard, "Ridge regression:
    biased estimation for nonorthogonal problems", Technometrics 1970.
    """

    remarks: ClassVar[tuple[Remark, ...]] = (
        Remark(
            "no effect",
            lambda own: own.rule != "fixed" and own.strength != Ridge().strength,
            "rule=leave_one_out chooses the strength of ridge, so the given strength has no effect: leave it out, or "
            "set the classifier's rule=fixed",
        ),
    )
    kind: Literal["ridge"] = "ridge"
    rule: Literal["leave_one_out", "fixed"] = Field(default="leave_one_out", title="Ridge: choice of the penalty")
    """How the penalty is chosen: by the lowest leave-one-out squared error among 1e-6 to 1e4, or as given (fixed)."""
    strength: float = Field(default=0.1, ge=1e-9, le=1e9, title="Ridge: L2 penalty")
    """L2 penalty relative to the mean variance of a feature; used only with rule=fixed."""

    def fit(self, rows: Rows) -> Dense:
        """Return the layer fitted to the rows; a class without rows scores -1 everywhere."""
        basis, targets = eigenbasis(rows.x, rows.weight), signs(rows)
        strength = self.strength
        if self.rule == "leave_one_out":
            strength = GRID[int(leave_one_out(basis, rows, targets).argmin())]
        weight = rows.weight.to(basis.mean)
        share = weight / weight.sum()
        level = share @ targets
        turned = (basis.rotate(rows.x) * share.unsqueeze(1)).T @ (targets - level)
        solution = (basis.vectors @ (turned / (basis.values + strength * unit_of(basis)).unsqueeze(1))).T
        return solved_layer(solution, level - solution @ basis.mean)


def signs(rows: Rows) -> Tensor:
    """Return targets [N, C] float64: +1 for the true class, -1 for the others."""
    return 2 * torch.nn.functional.one_hot(rows.labels, rows.classes).double() - 1


def unit_of(basis: Eigenbasis) -> Tensor:
    """Return the penalty of strength 1: the mean variance of the D features, or 1 if no feature varies."""
    mean = basis.values.sum() / len(basis.mean)
    return torch.where(mean > 0, mean, torch.ones_like(mean))


def leave_one_out(basis: Eigenbasis, rows: Rows, targets: Tensor) -> Tensor:
    """Return the weighted leave-one-out mean squared error [len(GRID)] of the targets [N, C].

    The fit to all rows gives it exactly, as the residual divided by 1 - h_ii: Golub, Heath and Wahba, "Generalized
    cross-validation as a method for choosing a good ridge parameter", Technometrics 1979, eq. 1.2 f. In the
    eigenbasis, h_ii = w_i / sum(w) (1 + sum_k u_ik^2 / (values_k + s)), where the 1 is for the intercept.
    """
    weight = rows.weight.to(basis.mean)
    share = (weight / weight.sum()).unsqueeze(1)
    u, centred = basis.rotate(rows.x), targets - share.T @ targets
    turned = (u * share).T @ centred
    errors = []
    for strength in GRID:
        shrunk = 1 / (basis.values + strength * unit_of(basis)).unsqueeze(1)
        kept = 1 - share * (1 + u.square() @ shrunk)
        residual = (centred - u @ (turned * shrunk)) / kept.clamp_min(1e-12)
        errors.append((share * residual.square()).sum() / targets.shape[1])
    return torch.stack(errors)
