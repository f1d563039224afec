"""Telling rows of known classes from others: four scores of logits [N, C], and the area under the ROC curve.

Each score is higher for rows of known classes: Hendrycks and Gimpel, "A baseline for detecting misclassified and
out-of-distribution examples", ICLR 2017 (msp, and entropy); Hendrycks et al., "Scaling out-of-distribution detection
for real-world settings", ICML 2022 (max_logit); Liu et al., "Energy-based out-of-distribution detection", NeurIPS 2020.
"""

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from frostbench.training.metrics.bins import Floats, Ints, sums_by

SCORES = ("msp", "neg_entropy", "max_logit", "energy")
OF_PROBABILITIES = ("msp", "neg_entropy")
"""Scores that need probabilities alone, as an average of several heads has them."""


def scores(logits: Tensor) -> dict[str, Floats]:
    """Each score [N] of logits [N, C], which may be divided by a temperature before; -inf for untrained classes.

    >>> found = scores(torch.tensor([[3.0, 0.0, 0.0]]))
    >>> [round(float(found[name][0]), 4) for name in SCORES]
    [0.9094, -0.3666, 3.0, 3.0949]
    """
    exact = logits.double()
    log_p = exact.log_softmax(1)
    p = log_p.exp()
    found = {
        "msp": p.amax(1),
        "neg_entropy": torch.special.xlogy(p, p).sum(1),
        "max_logit": exact.amax(1),
        "energy": exact.logsumexp(1),
    }
    return {name: values.numpy() for name, values in found.items()}


def auroc(known: Floats, other: Floats) -> float:
    """Chance that a row of a known class [N] scores above another row [M], half of it where they are equal.

    Raises:
        ValueError: one of the two has no rows.
    """
    _check(known, other)
    is_known = np.repeat([1, 0], [len(known), len(other)])
    return float(roc_auc_score(is_known, np.concatenate([known, other])))


def resampled_auroc(known: Floats, other: Floats, known_weights: Floats, other_weights: Floats) -> Floats:
    """The same [B] under weights [N, B] and [M, B] of the rows of both.

    Raises:
        ValueError: one of the two has no rows.
    """
    _check(known, other)
    values, place = np.unique(np.concatenate([known, other]), return_inverse=True)
    inside: Ints = place[: len(known)]
    own = sums_by(inside, len(values), known_weights)
    others = sums_by(place[len(known) :], len(values), other_weights)
    below = others.cumsum(0) - others / 2
    return np.asarray((own * below).sum(0) / (own.sum(0) * others.sum(0)))


def _check(known: Floats, other: Floats) -> None:
    if min(len(known), len(other)) == 0:
        raise ValueError(
            f"two sets of rows are told apart, however: {len(known)} rows of known classes and {len(other)} others "
            "came. Give both some."
        )
