"""Multinomial logistic regression, solved to a verified gradient norm."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.bodies.dense import Dense, zero_layer
from frostbench.heads.classifier import Classifier, MeanLosses, Solution
from frostbench.heads.closed_form.eigen import Eigenbasis, eigenbasis
from frostbench.heads.logreg.curvature import MEMORY
from frostbench.heads.logreg.lbfgs import Problem, minimise
from frostbench.heads.logreg.line_search import evaluate
from frostbench.heads.spec import SWEPT

BUDGET_BYTES = 2**30
"""Memory limit for the heads that are solved at once; see `solve_path`."""


class LogisticRegression(Classifier):
    """Logits are W x + b at the optimum of a penalised loss, found by L-BFGS.

    The objective is the mean loss + |W|^2 / (2 C N); the bias is not regularised. For weights of mean 1 it has the same
    optimum as scikit-learn's (with two classes, for which scikit-learn fits one column, as scikit-learn's at 2 C). The
    default tolerances of common solvers can leave errors of 0.1 in probabilities, so the solution states its gradient
    norm. Liu and Nocedal, "On the limited memory BFGS method for large scale optimization", Math. Programming 1989.
    """

    is_closed_form: ClassVar[bool] = True
    kind: Literal["logreg"] = "logreg"
    c: float = Field(default=1.0, gt=0, le=1e6, json_schema_extra=SWEPT, title="Logistic regression: inverse penalty C")
    """Inverse strength of the L2 penalty, as in scikit-learn, on rescaled vectors (see head.preprocess)."""
    tolerance: float = Field(default=1e-6, ge=1e-10, le=1e-2, title="Logistic regression: gradient tolerance")
    """Maximum absolute entry of the objective's gradient at the solution."""
    max_iterations: int = Field(default=5000, ge=1, le=1_000_000, title="Logistic regression: maximum iterations")
    """Maximum number of solver steps; a run that reaches it reports that it did not converge."""

    def build(self, dim: int, classes: int, generator: torch.Generator) -> Dense:
        """Build a layer of zeros to hold the solution; nothing is drawn from generator."""
        return zero_layer(dim, classes)

    def solve(self, x: Tensor, mean_loss: Callable[[Tensor], Tensor], classes: int) -> Solution:
        """Minimise mean_loss(logits [N, C]) + |W|^2 / (2 C N) over W [C, D] and b [C] for features x [N, D].

        The loss is differentiated by autograd, and is called with both float32 and float64 logits.
        """
        return solve_path([self], x, lambda logits, _: mean_loss(logits[0]).reshape(1), classes)[0]

    @classmethod
    def solve_all(cls, specs: Sequence[Classifier], x: Tensor, mean_losses: MeanLosses, classes: int) -> list[Solution]:
        """Solve K specs of this kind on the same features x [N, D]; see `solve_path`."""
        return solve_path([spec for spec in specs if isinstance(spec, cls)], x, mean_losses, classes)


def solve_path(specs: Sequence[LogisticRegression], x: Tensor, mean_losses: MeanLosses, classes: int) -> list[Solution]:
    """Solve K heads on the same features x [N, D] and classes; all other options may differ.

    mean_losses(logits [K', N, C], index [K'] int64) returns the mean losses [K'] of the heads at these indices of
    specs, without penalties. It is differentiated by autograd, must treat heads independently, and is called with both
    float32 and float64 logits.

    Rows are centred, which moves W mean into the unpenalised bias, and rotated into the covariance's eigenbasis, which
    keeps |W|, so the optimum stays the same. There the Hessian is nearly diagonal in the features, which preconditions
    the search.

    A head takes 64 bytes for each of its N C logits and 8 (10 + MEMORY) for each of its C (min(N, D) + 1) numbers. As
    many heads as fit into `BUDGET_BYTES` are solved at once, at least one. The rows take another 28 N D bytes.
    """
    exact = x.double()
    one = torch.ones_like(exact[:, :1])
    basis = eigenbasis(exact, one.flatten())
    rows = torch.cat([basis.rotate(exact), one], 1)
    together = max(1, BUDGET_BYTES // (classes * (64 * len(x) + 8 * (10 + MEMORY) * rows.shape[1])))
    solutions: list[Solution] = []
    for start in range(0, len(specs), together):
        part = torch.arange(start, min(start + together, len(specs)), device=x.device)
        problem = _problem([specs[i] for i in part.tolist()], rows, basis, _only(mean_losses, part), classes)
        theta, steps = minimise(problem)
        weight = theta[..., :-1] @ basis.vectors.T
        bias = theta[..., -1] - weight @ basis.mean
        norms = _gradient_norms(exact, problem, weight, bias)
        columns = zip(weight, bias, norms.tolist(), steps.tolist(), part.tolist(), strict=True)
        solutions += [Solution(w, b, norm, taken, norm <= specs[i].tolerance) for w, b, norm, taken, i in columns]
    return solutions


def _only(mean_losses: MeanLosses, part: Tensor) -> MeanLosses:
    """Restrict the losses to the heads in part, indexed from 0."""
    return lambda logits, index: mean_losses(logits, part[index])


def _problem(
    specs: Sequence[LogisticRegression], rows: Tensor, basis: Eigenbasis, mean_losses: MeanLosses, classes: int
) -> Problem:
    """Build the problem for rows [N, r + 1] in the eigenbasis, with a last entry of 1 for the bias."""
    strength = rows.new_tensor([1 / (spec.c * len(rows)) for spec in specs])
    free = torch.cat([torch.ones_like(basis.values), basis.values.new_zeros(1)])

    def stated_norm(gradient: Tensor) -> Tensor:
        """Return the norm of the gradient [K, C, r + 1] in terms of W and b for the original features."""
        in_bias = gradient[..., -1:]
        in_weight = gradient[..., :-1] @ basis.vectors.T + in_bias * basis.mean
        return torch.maximum(in_weight.abs().amax((1, 2)), in_bias.abs().amax((1, 2)))

    return Problem(
        rows=rows,
        spread=torch.cat([basis.values, torch.ones_like(basis.values[:1])]),
        penalty=strength[:, None, None] * free,
        mean_losses=mean_losses,
        classes=classes,
        norm=stated_norm,
        tolerance=rows.new_tensor([spec.tolerance for spec in specs]),
        max_steps=torch.tensor([spec.max_iterations for spec in specs], device=rows.device),
    )


def _gradient_norms(x: Tensor, problem: Problem, weight: Tensor, bias: Tensor) -> Tensor:
    """Return the largest absolute entry [K] of the objective's gradient at weight [K, C, D] and bias [K, C]."""
    logits = (x @ weight.flatten(0, 1).T).view(len(x), *bias.shape).transpose(0, 1) + bias.unsqueeze(1)
    _, slope = evaluate(problem.mean_losses, logits, torch.arange(len(weight), device=x.device))
    in_weight = (slope.transpose(1, 2).flatten(0, 1) @ x).view_as(weight) + problem.penalty[..., :1] * weight
    return torch.maximum(in_weight.abs().amax((1, 2)), slope.sum(1).abs().amax(1))
