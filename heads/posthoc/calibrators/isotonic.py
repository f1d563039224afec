"""Isotonic calibration: scikit-learn's regression, class by class or on the confidence alone."""

from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.posthoc.calibrators.rows import Numbers, checked, with_rows
from frostbench.heads.spec import Spec

SMALLEST = float(torch.finfo(torch.float64).eps)
"""Least probability of a class that can come, so that no single row makes a likelihood infinite."""
AHEAD = 1e-5
"""By how much the predicted class stays ahead of the second, where the fit would put them level or change them."""


class Isotonic(Spec):
    """A step-wise increasing function of the probabilities, interpolated between its steps.

    Zadrozny and Elkan, "Transforming classifier scores into accurate multiclass probability estimates", KDD 2002,
    sections 3 and 4, by scikit-learn's IsotonicRegression. It has as many steps as the rows ask for, and needs many.
    """

    tier = "experimental"

    kind: Literal["isotonic"] = "isotonic"
    form: Literal["one_vs_rest", "top_label"] = Field(default="one_vs_rest", title="Isotonic regression: form")
    """One function for each class, then normalised; or one for the largest, which keeps the predicted class."""

    def fit(self, logits: Tensor, labels: Tensor, weight: Tensor | None = None) -> Numbers:
        """The knots of each function: `x` and `y`, one function after the other, and the `ends` of each [functions].

        A class without calibration rows has none, and keeps its probability until all are normalised.

        Raises:
            ValueError: as `fit_temperature`.
        """
        exact, share = checked(logits, labels, weight, "isotonic calibration")
        p = exact.softmax(1)
        if self.form == "top_label":
            top, place = p.max(1)
            return _joined([_knots(top, (place == labels).double(), share)])
        seen = with_rows(labels, share, p.shape[1])
        empty = (p.new_zeros(0), p.new_zeros(0))
        each = [_knots(p[:, c], (labels == c).double(), share) if seen[c] else empty for c in range(p.shape[1])]
        return _joined(each)

    def apply(self, logits: Tensor, numbers: Numbers) -> Tensor:
        """Log-probabilities [N, C]; classes with logit -inf keep probability 0."""
        found = _one_vs_rest if self.form == "one_vs_rest" else _top_label
        return found(logits.double(), numbers).to(logits.dtype)


def _knots(p: Tensor, hit: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    from sklearn.isotonic import IsotonicRegression

    found = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
    found.fit(p.numpy(), hit.numpy(), sample_weight=share.numpy())
    return torch.from_numpy(found.X_thresholds_).double(), torch.from_numpy(found.y_thresholds_).double()


def _joined(each: list[tuple[Tensor, Tensor]]) -> Numbers:
    ends = torch.tensor([len(x) for x, _ in each]).cumsum(0)
    return {"x": torch.cat([x for x, _ in each]), "y": torch.cat([y for _, y in each]), "ends": ends}


def _at(p: Tensor, numbers: Numbers, function: int) -> Tensor | None:
    """Values [N] of a function at probabilities [N]; None where it was not fitted."""
    end = int(numbers["ends"][function])
    begin = int(numbers["ends"][function - 1]) if function else 0
    if begin == end:
        return None
    x, y = numbers["x"][begin:end].numpy(), numbers["y"][begin:end].numpy()
    return torch.from_numpy(np.interp(p.numpy(), x, y))


def _one_vs_rest(logits: Tensor, numbers: Numbers) -> Tensor:
    """Each class by its own function, then divided by their sum; rows where all are 0 keep their probabilities."""
    p, lacking = logits.softmax(1), logits.isinf()
    moved = p.clone()
    for c in range(p.shape[1]):
        found = _at(p[:, c], numbers, c)
        if found is not None:
            moved[:, c] = found
    moved[lacking] = 0
    moved = torch.where(moved.sum(1, keepdim=True) > 0, moved, p).clamp(min=SMALLEST).masked_fill(lacking, 0)
    return (moved / moved.sum(1, keepdim=True)).log()


def _top_label(logits: Tensor, numbers: Numbers) -> Tensor:
    """The largest probability by the function, and the rest shared among the others as before.

    Let p be the largest probability and q the second. With c in place of p, the second has (1 - c) q / (1 - p), which
    is below c where c > q / (1 - p + q): the least c that is used.
    """
    log_p = logits.log_softmax(1)
    place = logits.argmax(1, keepdim=True)
    others = logits.scatter(1, place, -torch.inf)
    if bool(others.isinf().all()):
        return log_p
    rest = others.log_softmax(1)
    second = rest.exp().amax(1)
    top = _at(log_p.gather(1, place).squeeze(1).exp(), numbers, 0)
    if top is None:
        raise ValueError("the confidence of isotonic calibration has one function, however: none came. Fit it anew.")
    least = second / (1 + second) * (1 + AHEAD)
    top = torch.maximum(top, least).clamp(SMALLEST, 1 - SMALLEST)[:, None]
    alone = others.isinf().all(1, keepdim=True)
    moved = ((1 - top).log() + rest).scatter(1, place, top.log())
    return torch.where(alone, log_p, moved)
