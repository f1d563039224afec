"""Vector scaling."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.posthoc.calibrators.rows import Numbers, checked, with_rows
from frostbench.heads.posthoc.calibrators.smooth import likelihood, minimum
from frostbench.heads.spec import Spec


class Vector(Spec):
    """A scale and an offset per class, softmax(w * logits + b). The predicted class may change.

    Logits are defined only up to a constant per row, so their mean over the row's classes is subtracted first.
    Guo et al., "On calibration of modern neural networks", ICML 2017, section 4.2, with a penalty that makes the
    optimum unique: strength * mean over classes of ((w - 1)^2 + b^2). It also gives b mean 0 if all classes have rows.
    A class without calibration rows keeps w = 1 and b = 0.
    """

    tier = "experimental"

    kind: Literal["vector"] = "vector"
    strength: float = Field(default=0.01, gt=0, le=1e6, title="Vector scaling: penalty")
    """Penalty on w - 1 and b, relative to the mean log-likelihood of a row; a large one keeps the probabilities."""

    def fit(self, logits: Tensor, labels: Tensor, weight: Tensor | None = None) -> Numbers:
        """Fit scale `w` and offset `b`, each [C], by L-BFGS-B.

        Raises:
            ValueError: as in `fit_temperature`.
        """
        exact, share = checked(logits, labels, weight, "vector scaling")
        free = with_rows(labels, share, exact.shape[1])
        x, lacking = _centred(exact)
        count = int(free.sum())

        def objective(flat: Tensor) -> tuple[Tensor, Tensor]:
            w, b = _spread(flat, free)
            value, slope = likelihood((w * x + b).masked_fill(lacking, -torch.inf), labels, share)
            gradient = torch.cat([(slope * x).sum(0)[free], slope.sum(0)[free]])
            away = flat - start
            return value + self.strength * away.square().sum() / count, gradient + 2 * self.strength * away / count

        start = torch.cat([torch.ones(count), torch.zeros(count)]).double()
        w, b = _spread(minimum(objective, start, torch.full_like(start, torch.inf)), free)
        return {"w": w, "b": b}

    def apply(self, logits: Tensor, numbers: Numbers) -> Tensor:
        """Return log-probabilities [N, C]; classes with logit -inf keep probability 0."""
        x, lacking = _centred(logits.double())
        scores = numbers["w"] * x + numbers["b"]
        return scores.masked_fill(lacking, -torch.inf).log_softmax(1).to(logits.dtype)


def _centred(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return logits [N, C] minus their row mean, 0 for impossible classes, and a mask [N, C] of these."""
    lacking = logits.isinf()
    known = logits.masked_fill(lacking, 0.0)
    count = (~lacking).sum(1, keepdim=True).clamp(min=1)
    return (known - known.sum(1, keepdim=True) / count).masked_fill(lacking, 0.0), lacking


def _spread(flat: Tensor, free: Tensor) -> tuple[Tensor, Tensor]:
    """Expand scale and offset of the free classes to all classes [C]."""
    w, b = torch.ones(len(free), dtype=torch.float64), torch.zeros(len(free), dtype=torch.float64)
    w[free], b[free] = flat.chunk(2)
    return w, b
