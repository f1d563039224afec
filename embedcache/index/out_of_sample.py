"""Out-of-sample predictions for each row: ridge regression probabilities and votes of nearest neighbours.

What does not depend on labels is computed once, so that changed labels are judged at once.
"""

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
MOST_FITTED = 5_000
"""Largest number of rows, evenly spaced, on which the temperature of the softmax is fitted."""
LEFT_OUT = -1
"""Label of a row that no prediction may use."""


class FoldRidge:
    """Ridge regressions that predict the rows of each fold from the rows of all others.

    The scatter outside a fold is the total scatter minus that of the fold, so the rows are read once, whatever the
    number of folds.

    Args:
        rows: [N, D].
        folds: int [N] from 0.
    """

    def __init__(self, rows: UnitRows, folds: Numbers) -> None:
        count, dim = int(folds.max()) + 1, rows.shape[1]
        self.rows, self.folds = rows, folds
        self._scatter, self._sums = np.zeros((count, dim, dim)), np.zeros((count, dim))
        for start, x in rows.blocks(BLOCK_ROWS):
            _add(self._scatter, self._sums, x, folds[start : start + len(x)], 1)

    def probabilities(self, labels: Numbers, classes: int) -> Floats:
        """Predict class probabilities of each row [N, C] by the regression that was not fitted on its fold.

        Targets are one-hot, and rows and targets are centred. A softmax at the temperature that minimises the NLL turns
        scores into probabilities. A class without rows outside the fold has probability 0.

        Args:
            labels: int [N]; `LEFT_OUT` for rows that are predicted, but not used.
            classes: C.
        """
        scatter, sums = self._without(np.flatnonzero(labels == LEFT_OUT))
        cross, counts = self._targets(labels, classes)
        fits = [
            _fit(_outside(scatter, f), _outside(cross, f), _outside(sums, f), _outside(counts, f))
            for f in range(len(scatter))
        ]
        scores = np.empty((self.rows.shape[0], classes))
        for start, x in self.rows.blocks(BLOCK_ROWS):
            own = self.folds[start : start + len(x)]
            for fold in np.unique(own):
                mine = np.flatnonzero(own == fold)
                scores[start + mine] = x[mine] @ fits[fold][0].astype(np.float32) + fits[fold][1]
        return _softmax_fitted(scores, labels)

    def _without(self, out: Numbers) -> tuple[Floats, Floats]:
        """Return the scatters [F, D, D] and sums [F, D] of the folds without some rows."""
        if not len(out):
            return self._scatter, self._sums
        scatter, sums = self._scatter.copy(), self._sums.copy()
        _add(scatter, sums, self.rows.only(out).block(0, len(out)), self.folds[out], -1)
        return scatter, sums

    def _targets(self, labels: Numbers, classes: int) -> tuple[Floats, Floats]:
        """Return the sum of the rows [F, D, C] and their number [F, C] of each fold and class."""
        from scipy.sparse import csr_array

        count, dim = len(self._scatter), self.rows.shape[1]
        used = labels != LEFT_OUT
        place = self.folds * classes + labels
        sums = np.zeros((count * classes, dim))
        for start, x in self.rows.blocks(BLOCK_ROWS):
            mine = np.flatnonzero(used[start : start + len(x)])
            one_hot = csr_array((np.ones(len(mine)), (place[start + mine], mine)), shape=(len(sums), len(x)))
            sums += one_hot @ x
        counts = np.bincount(place[used], minlength=len(sums)).reshape(count, classes).astype(np.float64)
        return sums.reshape(count, classes, dim).transpose(0, 2, 1), counts


def _add(scatter: Floats, sums: Floats, x: npt.NDArray[np.float32], folds: Numbers, sign: int) -> None:
    """Add rows to the scatters and sums of their folds, or take them away."""
    for fold in np.unique(folds):
        own = x[folds == fold]
        scatter[fold] += sign * (own.T @ own)
        sums[fold] += sign * own.sum(axis=0, dtype=np.float64)


def _outside(parts: Floats, fold: int) -> Floats:
    return np.asarray(parts.sum(axis=0) - parts[fold])


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
    from scipy.special import logsumexp, softmax

    scored = np.flatnonzero(labels != LEFT_OUT)
    scored = scored[np.isfinite(scores[scored, labels[scored]])]
    few = scored[np.unique(np.linspace(0, len(scored) - 1, min(MOST_FITTED, len(scored))).astype(np.int64))]
    seen, own = scores[few], scores[few, labels[few]]

    def loss(log_inverse: float) -> float:
        return float((logsumexp(seen * np.exp(log_inverse), axis=1) - own * np.exp(log_inverse)).mean())

    best = float(minimize_scalar(loss, bounds=(-3, 6), method="bounded").x) if len(few) else 0.0
    return np.asarray(softmax(scores * np.exp(best), axis=1))


class FoldNeighbours:
    """The nearest rows of each row in other folds, which vote for its label.

    Groups are never divided between folds, so neither the row's group nor its copies vote.

    Args:
        rows: [N, D].
        folds: int [N] from 0.
        k: number of voting neighbours.
        method: how they are searched.
    """

    def __init__(self, rows: UnitRows, folds: Numbers, k: int, method: Method = "auto") -> None:
        self._neighbours = np.full((len(folds), k), -1, dtype=np.int64)
        self._votes = np.zeros((len(folds), k))
        for fold in np.unique(folds):
            held, rest = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
            size = min(k, len(rest))
            found = nearest(rows.only(held), rows.only(rest), size, method=method)
            self._neighbours[held, :size] = rest[found.rows]
            self._votes[held, :size] = np.exp((found.cosine - found.cosine[:, :1]) / TEMPERATURE)

    def agreement(self, labels: Numbers) -> Floats:
        """Return the share [N] of votes for each row's label; 0 if all its neighbours are left out.

        Args:
            labels: int [N]; `LEFT_OUT` for rows that do not vote.
        """
        theirs = labels[self._neighbours]
        votes = np.where(theirs == LEFT_OUT, 0.0, self._votes)
        total = votes.sum(axis=1)
        mine = (votes * (theirs == labels[:, None])).sum(axis=1)
        return np.asarray(np.divide(mine, total, out=np.zeros(len(labels)), where=total > 0))
