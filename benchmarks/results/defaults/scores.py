"""Scores of predicted probabilities on test rows, and intervals of differences over draws."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy import stats
from sklearn.linear_model import LogisticRegression

from frostbench.benchmarks.comparison.frame import Floats
from frostbench.benchmarks.results.defaults.cuts import Roles
from frostbench.benchmarks.results.tables import Table
from frostbench.training.metrics.classification import all_metrics

STRENGTHS = tuple(10.0**k for k in range(-3, 3))
"""C of scikit-learn's logistic regression, for centred coordinates with standard deviation 1."""


class Score(NamedTuple):
    """Accuracy, macro F1, NLL and ECE on test rows."""

    accuracy: float
    macro_f1: float
    nll: float
    ece: float

    def __str__(self) -> str:
        return "/".join(f"{value:.3f}".lstrip("0") for value in self[:3])


class Difference(NamedTuple):
    """Mean difference over draws, with its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


def score(p: Floats, table: Table, roles: Roles) -> Score:
    """Score probabilities [M, C] of the test rows; NLL ignores rows of classes without training rows."""
    counts = torch.bincount(torch.from_numpy(table.labels[roles == "train"]), minlength=p.shape[1])
    log_p = torch.from_numpy(p).log()
    log_p[:, counts == 0] = -torch.inf
    candidates = all_metrics(log_p, torch.from_numpy(table.labels[roles == "test"]), counts)
    return Score(*(float(candidates[name] or 0.0) for name in ("accuracy", "macro_f1_fg", "nll", "ece")))


def mean(scores: Sequence[Score]) -> Score:
    """Return the mean of each metric."""
    return Score(*np.mean(scores, axis=0).tolist())


def difference(ours: Sequence[float], theirs: Sequence[float], overlap: float) -> Difference:
    """Return the mean paired difference over J draws, with its 95 % interval.

    Draws from one table share training rows, so their variance is multiplied by (1 / J + overlap) instead of 1 / J:
    Nadeau and Bengio, "Inference for the generalization error", Machine Learning 52, 2003, where overlap is the ratio
    of test to training rows. Overlap 0 gives Student's interval, for draws that share no rows.
    """
    values = np.subtract(ours, theirs)
    spread = math.sqrt((1 / len(values) + overlap) * float(values.var(ddof=1)))
    half = float(stats.t.ppf(0.975, len(values) - 1)) * spread
    return Difference(float(values.mean()), float(values.mean()) - half, float(values.mean()) + half)


def logreg(table: Table, roles: Roles) -> Score:
    """Score scikit-learn's logistic regression with the C that has the lowest NLL on validation rows."""
    x = table.x / np.sqrt(table.x[roles == "train"].var(0).mean())
    candidates: list[tuple[float, Floats]] = []
    for strength in STRENGTHS:
        solver = LogisticRegression(C=strength, max_iter=2000, tol=1e-3)
        solver.fit(x[roles == "train"], table.labels[roles == "train"])
        p = np.zeros((len(x), int(table.labels.max()) + 1))
        p[:, solver.classes_] = solver.predict_proba(x)
        label_p = p[np.arange(len(x)), table.labels][roles == "select"]
        candidates.append((float(-np.log(np.maximum(label_p, 1e-12)).mean()), p[roles == "test"]))
    return score(min(candidates, key=lambda candidate: candidate[0])[1], table, roles)
