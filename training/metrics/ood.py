"""Out-of-distribution detection: four scores of logits [N, C], and the area under the ROC curve.

Each score tends to be higher for known classes: Hendrycks and Gimpel, "A baseline for detecting misclassified and
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
"""Scores that need only probabilities, so that an average of several heads has them too."""


def scores(logits: Tensor) -> dict[str, Floats]:
    """Compute each score [N] of logits [N, C], with any temperature already applied; -inf for untrained classes.

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
    """Return the probability that a row of a known class [N] scores above another row [M]; ties count half.

    Raises:
        ValueError: one of the two sets has no rows.
    """
    _check(known, other)
    is_known = np.repeat([1, 0], [len(known), len(other)])
    return float(roc_auc_score(is_known, np.concatenate([known, other])))


def resampled_auroc(known: Floats, other: Floats, known_weights: Floats, other_weights: Floats) -> Floats:
    """Return the AUROC [B] for weights [N, B] and [M, B] of the rows of both sets.

    Raises:
        ValueError: one of the two sets has no rows.
    """
    _check(known, other)
    values, index = np.unique(np.concatenate([known, other]), return_inverse=True)
    index_of_known: Ints = index[: len(known)]
    inside = sums_by(index_of_known, len(values), known_weights)
    outside = sums_by(index[len(known) :], len(values), other_weights)
    below = outside.cumsum(0) - outside / 2
    return np.asarray((inside * below).sum(0) / (inside.sum(0) * outside.sum(0)))


def _check(known: Floats, other: Floats) -> None:
    if min(len(known), len(other)) == 0:
        raise ValueError(
            f"AUROC needs rows of known classes and other rows, got {len(known)} and {len(other)}. Provide both."
        )
