"""What the rest of a table says of each row: class probabilities by ridge regression, and votes of neighbours."""

import numpy as np
import numpy.typing as npt

from frostbench.embedcache.index.rows import Numbers, UnitRows
from frostbench.embedcache.index.search import Method, nearest

Floats = npt.NDArray[np.float64]

RIDGE = 0.1
"""Penalty as a share of the mean eigenvalue of the training rows' scatter."""
TEMPERATURE = 0.07
"""Neighbours count exp(cosine / 0.07), as in Wu et al. (CVPR 2018, section 3.1) and DINO's kNN."""
BLOCK_ROWS = 8192


def ridge_probabilities(rows: UnitRows, labels: Numbers, folds: Numbers, classes: int) -> Floats:
    """The probability of each class for each row [N, C] by ridge regressions that did not see the row's fold.

    Targets are one column per class, and rows and targets are centred. The scatter of the rows outside a fold is the
    whole scatter less that of the fold, so the rows are read twice, whatever the number of folds. Scores become
    probabilities by a softmax with one temperature, that of the least negative log-likelihood. A class without a row
    outside the fold has probability 0.

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
    """Weights [D, C] and biases [C] of the ridge regression of centred one-hot targets on centred rows."""
    from scipy.linalg import solve

    n = counts.sum()
    centred = scatter - np.outer(sums, sums) / n
    penalty = RIDGE * np.trace(centred) / len(centred) + np.finfo(np.float32).tiny
    weights = solve(centred + penalty * np.eye(len(centred)), cross - np.outer(sums, counts) / n, assume_a="pos")
    bias = np.where(counts > 0, counts / n - sums / n @ weights, -np.inf)
    return weights, bias


def _softmax_fitted(scores: Floats, labels: Numbers) -> Floats:
    """Softmax of scores [N, C] divided by the temperature under which the labels that are possible are likeliest."""
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    own = np.arange(len(labels))
    judged = np.isfinite(scores[own, labels])
    seen, known = scores[judged], labels[judged]

    def loss(log_inverse: float) -> float:
        return float(-log_softmax(seen * np.exp(log_inverse), axis=1)[np.arange(len(known)), known].mean())

    best = float(minimize_scalar(loss, bounds=(-3, 6), method="bounded").x) if judged.any() else 0.0
    return np.asarray(np.exp(log_softmax(scores * np.exp(best), axis=1)))


def neighbour_agreement(rows: UnitRows, labels: Numbers, folds: Numbers, k: int, method: Method = "auto") -> Floats:
    """The share of the votes of each row's k nearest rows in other folds that are for its own label [N].

    As whole groups are in one fold, neither the row nor its group nor its copies vote.
    """
    share = np.zeros(len(labels))
    for fold in np.unique(folds):
        held, rest = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        found = nearest(rows.only(held), rows.only(rest), min(k, len(rest)), method=method)
        votes = np.exp((found.cosine - found.cosine[:, :1]) / TEMPERATURE)
        agrees = labels[rest[found.rows]] == labels[held][:, None]
        share[held] = (votes * agrees).sum(axis=1) / votes.sum(axis=1)
    return share
