"""What probabilities of test rows are worth, and how sure a difference over draws is."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy import stats
from sklearn.linear_model import LogisticRegression

from frostbench.benchmarks.results.defaults.cuts import Roles
from frostbench.benchmarks.results.tables import Table
from frostbench.training.metrics.classification import all_metrics

Floats = npt.NDArray[np.float64]
STRENGTHS = tuple(10.0**k for k in range(-3, 3))
"""C of scikit-learn's logistic regression, on vectors whose centred coordinates have deviation 1."""


class Score(NamedTuple):
    """Accuracy, macro F1, NLL and ECE on test rows."""

    accuracy: float
    macro_f1: float
    nll: float
    ece: float

    def __str__(self) -> str:
        return "/".join(f"{value:.3f}".lstrip("0") for value in self[:3])


class Difference(NamedTuple):
    """The mean of differences over draws, with its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


def score(p: Floats, table: Table, roles: Roles) -> Score:
    """Of probabilities [M, C] of the test rows; the NLL leaves out rows of classes without a training row."""
    counts = torch.bincount(torch.from_numpy(table.labels[roles == "train"]), minlength=p.shape[1])
    log_p = torch.from_numpy(p).log()
    log_p[:, counts == 0] = -torch.inf
    found = all_metrics(log_p, torch.from_numpy(table.labels[roles == "test"]), counts)
    return Score(*(float(found[name] or 0.0) for name in ("accuracy", "macro_f1_fg", "nll", "ece")))


def mean(scores: Sequence[Score]) -> Score:
    """The mean of each metric."""
    return Score(*np.mean(scores, axis=0).tolist())


def difference(ours: Sequence[float], theirs: Sequence[float], overlap: float) -> Difference:
    """The mean of paired differences over J draws, with its 95 % interval.

    Draws from one table share training rows, so their variance is multiplied by (1 / J + overlap) instead of 1 / J:
    Nadeau and Bengio, "Inference for the generalization error", Machine Learning 52, 2003, where overlap is the number
    of test rows over that of training rows. 0 is Student's interval, for draws that share none.
    """
    values = np.subtract(ours, theirs)
    spread = math.sqrt((1 / len(values) + overlap) * float(values.var(ddof=1)))
    half = float(stats.t.ppf(0.975, len(values) - 1)) * spread
    return Difference(float(values.mean()), float(values.mean()) - half, float(values.mean()) + half)


def logreg(table: Table, roles: Roles) -> Score:
    """The score of scikit-learn's logistic regression with the strength of the least NLL on selection rows."""
    x = table.x / np.sqrt(table.x[roles == "train"].var(0).mean())
    found: list[tuple[float, Floats]] = []
    for strength in STRENGTHS:
        solver = LogisticRegression(C=strength, max_iter=2000, tol=1e-3)
        solver.fit(x[roles == "train"], table.labels[roles == "train"])
        p = np.zeros((len(x), int(table.labels.max()) + 1))
        p[:, solver.classes_] = solver.predict_proba(x)
        own = p[np.arange(len(x)), table.labels][roles == "select"]
        found.append((float(-np.log(np.maximum(own, 1e-12)).mean()), p[roles == "test"]))
    return score(min(found, key=lambda each: each[0])[1], table, roles)
