"""Isotonic calibration with scikit-learn, per class or of the confidence only."""

from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.posthoc.calibrators.rows import Numbers, checked, with_rows
from frostbench.heads.spec import Spec

SMALLEST = float(torch.finfo(torch.float64).eps)
"""Minimum probability of a possible class, so that no single row makes the likelihood infinite."""
AHEAD = 1e-5
"""Relative lead that the predicted class keeps over the second if the fit would tie or swap them."""


class Isotonic(Spec):
    """Non-decreasing piecewise linear functions: of each class's probability against the rest, or of the top label's.

    Zadrozny and Elkan, "Transforming classifier scores into accurate multiclass probability estimates", KDD 2002,
    sections 3 and 4, by scikit-learn's IsotonicRegression. It needs many rows.
    """

    tier = "experimental"

    kind: Literal["isotonic"] = "isotonic"
    form: Literal["one_vs_rest", "top_label"] = Field(default="one_vs_rest", title="Isotonic regression: form")
    """One function per class, followed by normalisation, or one for the top label, which keeps the predicted class."""

    def fit(self, logits: Tensor, labels: Tensor, weight: Tensor | None = None) -> Numbers:
        """Fit the knots of all functions, concatenated as `x` and `y`; those of function i stop at `ends`[i].

        A class without calibration rows has no knots, and keeps its probability until normalisation.

        Raises:
            ValueError: as in `fit_temperature`.
        """
        exact, share = checked(logits, labels, weight, "isotonic calibration")
        p = exact.softmax(1)
        if self.form == "top_label":
            top, predicted = p.max(1)
            return _joined([_knots(top, (predicted == labels).double(), share)])
        seen = with_rows(labels, share, p.shape[1])
        empty = (p.new_zeros(0), p.new_zeros(0))
        return _joined(
            [_knots(p[:, c], (labels == c).double(), share) if seen[c] else empty for c in range(p.shape[1])]
        )

    def apply(self, logits: Tensor, numbers: Numbers) -> Tensor:
        """Return log-probabilities [N, C]; classes with logit -inf keep probability 0."""
        function = _one_vs_rest if self.form == "one_vs_rest" else _top_label
        return function(logits.double(), numbers).to(logits.dtype)


def _knots(p: Tensor, hit: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    from sklearn.isotonic import IsotonicRegression

    regression = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
    regression.fit(p.numpy(), hit.numpy(), sample_weight=share.numpy())
    return torch.from_numpy(regression.X_thresholds_).double(), torch.from_numpy(regression.y_thresholds_).double()


def _joined(functions: list[tuple[Tensor, Tensor]]) -> Numbers:
    ends = torch.tensor([len(x) for x, _ in functions]).cumsum(0)
    return {"x": torch.cat([x for x, _ in functions]), "y": torch.cat([y for _, y in functions]), "ends": ends}


def _at(p: Tensor, numbers: Numbers, function: int) -> Tensor | None:
    """Evaluate a function at probabilities [N]; None if it was not fitted."""
    end = int(numbers["ends"][function])
    begin = int(numbers["ends"][function - 1]) if function else 0
    if begin == end:
        return None
    x, y = numbers["x"][begin:end].numpy(), numbers["y"][begin:end].numpy()
    return torch.from_numpy(np.interp(p.numpy(), x, y))


def _one_vs_rest(logits: Tensor, numbers: Numbers) -> Tensor:
    """Apply each class's function and normalise; rows where all values are 0 keep their probabilities."""
    p, lacking = logits.softmax(1), logits.isinf()
    moved = p.clone()
    for c in range(p.shape[1]):
        values = _at(p[:, c], numbers, c)
        if values is not None:
            moved[:, c] = values
    moved[lacking] = 0
    moved = torch.where(moved.sum(1, keepdim=True) > 0, moved, p).clamp(min=SMALLEST).masked_fill(lacking, 0)
    return (moved / moved.sum(1, keepdim=True)).log()


def _top_label(logits: Tensor, numbers: Numbers) -> Tensor:
    """Replace the largest probability by the function's value, and rescale the others to sum to the rest.

    Let p be the largest probability and q the second. With c in place of p, the second becomes (1 - c) q / (1 - p),
    which is below c if c > q / (1 - p + q). This is the lower bound of c.
    """
    log_p = logits.log_softmax(1)
    predicted = logits.argmax(1, keepdim=True)
    others = logits.scatter(1, predicted, -torch.inf)
    if bool(others.isinf().all()):
        return log_p
    rest = others.log_softmax(1)
    second = rest.exp().amax(1)
    top = _at(log_p.gather(1, predicted).squeeze(1).exp(), numbers, 0)
    if top is None:
        raise ValueError("Isotonic calibration of the top label needs one function, got none. Fit it again.")
    least = second / (1 + second) * (1 + AHEAD)
    top = torch.maximum(top, least).clamp(SMALLEST, 1 - SMALLEST)[:, None]
    alone = others.isinf().all(1, keepdim=True)
    moved = ((1 - top).log() + rest).scatter(1, predicted, top.log())
    return torch.where(alone, log_p, moved)
