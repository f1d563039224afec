"""Out-of-sample predictions for each row: ridge regression probabilities and votes of nearest neighbours."""

import numpy as np
import numpy.typing as npt

from frostbench.embedcache.index.rows import Numbers, UnitRows
from frostbench.embedcache.index.search import Method, nearest

Floats = npt.NDArray[np.float64]

RIDGE = 0.1
"""Penalty relative to the mean eigenvalue of the training rows' scatter."""
TEMPERATURE = 0.07
"""Neighbours have weight exp(cosine / 0.07), as in Wu et al. (CVPR 2018, section 3.1) and DINO's kNN."""
BLOCK_ROWS = 8192


def ridge_probabilities(rows: UnitRows, labels: Numbers, folds: Numbers, classes: int) -> Floats:
    """Predict class probabilities of each row [N, C] by ridge regressions that were not fitted on the row's fold.

    Targets are one-hot, and rows and targets are centred. The scatter outside a fold is the total scatter minus that of
    the fold, so the rows are read twice, whatever the number of folds. A softmax at the temperature that minimises the
    NLL turns scores into probabilities. A class without rows outside the fold has probability 0.

    Args:
        rows: [N, D].
        labels: int [N].
        folds: int [N] from 0.
        classes: C.
    """
    count, dim = int(folds.max()) + 1, rows.shape[1]
    scatter, cross = np.zeros((count, dim, dim)), np.zeros((count, dim, classes))
    sums, rows_of = np.zeros((count, dim)), np.zeros((count, classes))
    for start, x in rows.blocks(BLOCK_ROWS):
        for fold in np.unique(folds[start : start + len(x)]):
            mine = folds[start : start + len(x)] == fold
            own, targets = x[mine], _one_hot(labels[start : start + len(x)][mine], classes)
            scatter[fold] += own.T @ own
            cross[fold] += own.T @ targets
            sums[fold] += own.sum(axis=0, dtype=np.float64)
            rows_of[fold] += targets.sum(axis=0)
    fits = [
        _fit(scatter.sum(0) - scatter[f], cross.sum(0) - cross[f], sums.sum(0) - sums[f], rows_of.sum(0) - rows_of[f])
        for f in range(count)
    ]
    scores = np.empty((rows.shape[0], classes))
    for start, x in rows.blocks(BLOCK_ROWS):
        for fold in np.unique(folds[start : start + len(x)]):
            mine = np.flatnonzero(folds[start : start + len(x)] == fold)
            scores[start + mine] = x[mine] @ fits[fold][0] + fits[fold][1]
    return _softmax_fitted(scores, labels)


def _one_hot(labels: Numbers, classes: int) -> npt.NDArray[np.float32]:
    return np.eye(classes, dtype=np.float32)[labels]


def _fit(scatter: Floats, cross: Floats, sums: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Fit a ridge regression of centred one-hot targets on centred rows: weights [D, C] and biases [C]."""
    from scipy.linalg import solve

    n = counts.sum()
    centred = scatter - np.outer(sums, sums) / n
    penalty = RIDGE * np.trace(centred) / len(centred) + np.finfo(np.float32).tiny
    weights = solve(centred + penalty * np.eye(len(centred)), cross - np.outer(sums, counts) / n, assume_a="pos")
    bias = np.where(counts > 0, counts / n - sums / n @ weights, -np.inf)
    return weights, bias


def _softmax_fitted(scores: Floats, labels: Numbers) -> Floats:
    """Return the softmax of scores [N, C] at the temperature that minimises the NLL of labels with finite scores."""
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    own = np.arange(len(labels))
    scored = np.isfinite(scores[own, labels])
    seen, known = scores[scored], labels[scored]

    def loss(log_inverse: float) -> float:
        return float(-log_softmax(seen * np.exp(log_inverse), axis=1)[np.arange(len(known)), known].mean())

    best = float(minimize_scalar(loss, bounds=(-3, 6), method="bounded").x) if scored.any() else 0.0
    return np.asarray(np.exp(log_softmax(scores * np.exp(best), axis=1)))


def neighbour_agreement(rows: UnitRows, labels: Numbers, folds: Numbers, k: int, method: Method = "auto") -> Floats:
    """Return the share [N] of votes for each row's label among its k nearest rows in other folds.

    Groups are never divided between folds, so neither the row's group nor its copies vote.
    """
    share = np.zeros(len(labels))
    for fold in np.unique(folds):
        held, rest = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        found = nearest(rows.only(held), rows.only(rest), min(k, len(rest)), method=method)
        votes = np.exp((found.cosine - found.cosine[:, :1]) / TEMPERATURE)
        agrees = labels[rest[found.rows]] == labels[held][:, None]
        share[held] = (votes * agrees).sum(axis=1) / votes.sum(axis=1)
    return share
