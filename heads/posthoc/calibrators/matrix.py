"""Matrix scaling of log-probabilities, also known as Dirichlet calibration."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.posthoc.calibrators.rows import Numbers, checked, with_rows
from frostbench.heads.posthoc.calibrators.smooth import LARGEST, likelihood, minimum
from frostbench.heads.spec import Spec

MOST_CLASSES = 100


class Matrix(Spec):
    """A full matrix over the log-probabilities, softmax(W log p + b), with ODIR. The predicted class may change.

    Kull et al., "Beyond temperature scaling: obtaining well-calibrated multiclass probabilities with Dirichlet
    calibration", NeurIPS 2019, eq. 3 and section 3 (off-diagonal and intercept regularisation): the penalty is
    off_diagonal * mean over i != j of W_ij^2 + intercept * mean of b_i^2. A class without calibration rows keeps its
    log-probability and does not affect the others.
    """

    tier = "experimental"

    kind: Literal["matrix"] = "matrix"
    off_diagonal: float = Field(default=0.01, gt=0, le=1e6, title="Matrix scaling: off-diagonal penalty")
    """Penalty on off-diagonal weights, relative to the mean log-likelihood of a row."""
    intercept: float = Field(default=0.01, gt=0, le=1e6, title="Matrix scaling: intercept penalty")
    """Penalty on the offsets, relative to the mean log-likelihood of a row."""
    size: Literal["checked", "any"] = Field(default="checked", title="Matrix scaling: size check")
    """Whether fewer rows than classes squared, or more than 100 classes, are rejected; any disables this check."""

    def check_size(self, rows: int, classes: int) -> None:
        """Reject a fit with too few rows for its matrix, or too many classes.

        Raises:
            ValueError: there are fewer rows than classes squared, or more than 100 classes.
        """
        if self.size == "checked" and (rows < classes**2 or classes > MOST_CLASSES):
            raise ValueError(
                f"Matrix calibration of {classes} trained classes fits {classes * (classes + 1)} numbers and needs at "
                f"least {classes**2} rows and at most {MOST_CLASSES} classes, got {rows} "
                f"{'row' if rows == 1 else 'rows'}. Set posthoc.calibration.kind to temperature or vector, or "
                "posthoc.calibration.size to any."
            )

    def fit(self, logits: Tensor, labels: Tensor, weight: Tensor | None = None) -> Numbers:
        """Fit `w` [C, C] and `b` [C] by L-BFGS-B; weights are bounded by 20, in case there is no optimum.

        Raises:
            ValueError: as in `fit_temperature`.
        """
        exact, share = checked(logits, labels, weight, "matrix calibration")
        free = with_rows(labels, share, exact.shape[1])
        # Classes with rows come first, so that they are one slice of every array.
        order = torch.cat([free.nonzero(), (~free).nonzero()]).squeeze(1)
        log_p, targets = exact.log_softmax(1)[:, order], order.argsort()[labels]
        lacking, count = log_p.isinf(), int(free.sum())
        log_p = log_p.masked_fill(lacking, 0.0)
        x, rest, off = log_p[:, :count].contiguous(), log_p[:, count:], 1 - torch.eye(count, dtype=torch.float64)
        by_pair, by_class = self.off_diagonal / max(1, count * (count - 1)), self.intercept / count

        def objective(flat: Tensor) -> tuple[Tensor, Tensor]:
            w, b = flat[: count**2].view(count, count), flat[count**2 :]
            scores = torch.cat([x @ w.T + b, rest], 1).masked_fill_(lacking, -torch.inf)
            value, slope = likelihood(scores, targets, share)
            slope = slope[:, :count]
            value = value + by_pair * (off * w).square().sum() + by_class * b.square().sum()
            of_w = slope.T @ x + 2 * by_pair * off * w
            return value, torch.cat([of_w.flatten(), slope.sum(0) + 2 * by_class * b])

        start = torch.cat([torch.eye(count).flatten(), torch.zeros(count)]).double()
        bound = torch.cat([torch.full((count**2,), LARGEST), torch.full((count,), torch.inf)]).double()
        flat = minimum(objective, start, bound)
        return _spread(flat[: count**2].view(count, count), flat[count**2 :], free)

    def apply(self, logits: Tensor, numbers: Numbers) -> Tensor:
        """Return log-probabilities [N, C]; classes with logit -inf keep probability 0 and do not affect the others."""
        log_p = logits.double().log_softmax(1)
        lacking = log_p.isinf()
        scores = log_p.masked_fill(lacking, 0.0) @ numbers["w"].T + numbers["b"]
        return scores.masked_fill(lacking, -torch.inf).log_softmax(1).to(logits.dtype)


def _spread(w: Tensor, b: Tensor, free: Tensor) -> Numbers:
    """Expand the matrix and offsets of the free classes to all classes."""
    matrix, offsets = torch.eye(len(free), dtype=torch.float64), torch.zeros(len(free), dtype=torch.float64)
    index = free.nonzero().squeeze(1)
    matrix[index[:, None], index] = w
    offsets[index] = b
    return {"w": matrix, "b": offsets}
