"""Fits five lines of scikit-learn, and `frostbench.fit` with a preset, to the same vectors and rows."""

import hashlib
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV, RidgeClassifierCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from frostbench.benchmarks.comparison.frame import Floats
from frostbench.benchmarks.results.defaults.cuts import Roles
from frostbench.benchmarks.results.defaults.jobs import NOW, Code
from frostbench.benchmarks.results.tables import Table
from frostbench.embedcache.extraction.pipeline import usable_cores

PEERS: Mapping[str, Callable[[], Any]] = MappingProxyType(
    {
        "LogisticRegressionCV": lambda: make_pipeline(
            StandardScaler(),
            LogisticRegressionCV(max_iter=500, scoring="neg_log_loss"),
        ),
        "RidgeClassifierCV": lambda: make_pipeline(StandardScaler(), RidgeClassifierCV(alphas=np.logspace(0, 5, 6))),
        "LDA": lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
        "SVC": lambda: make_pipeline(StandardScaler(), CalibratedClassifierCV(SVC(), ensemble=False)),
        "kNN": lambda: make_pipeline(StandardScaler(), KNeighborsClassifier()),
        "HistGB": lambda: HistGradientBoostingClassifier(random_state=0),
    }
)
"""scikit-learn's classifiers at their defaults, except that logistic regression may take 500 iterations, not 100, and
chooses its strength by likelihood."""
WITHOUT_PROBABILITIES = ("RidgeClassifierCV",)
PRESETS = ("auto", "baseline", "plain", "logreg", "lda", "ridge", "full")
SLOW, MOST_CELLS = ("LogisticRegressionCV", "SVC", "HistGB"), 1_000_000
"""Classifiers that take hours where rows times classes exceed this number, and are left out there."""
SMALLEST_P = 1e-6
"""Probabilities are raised to this, because kNN's are 0 for classes without a neighbour."""


class Fit(NamedTuple):
    """A classifier to fit: its name, a table with its name, and the role of each row."""

    method: str
    table: Table
    name: str
    roles: Roles
    draw: int


def takes_too_long(method: str, table: Table) -> bool:
    """Return whether a classifier is left out on a table."""
    return method in SLOW and len(table.labels) * (int(table.labels.max()) + 1) > MOST_CELLS


def all_fitted(fits: Sequence[Fit], folder: Path) -> list[Floats]:
    """Return the probabilities [M, C] of the test rows of each fit, read from the folder or computed on all cores.

    Raises:
        ValueError: a preset cannot be trained.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(usable_cores(), get_context("spawn"), initializer=_one_thread) as pool:
        return list(pool.map(_kept, fits, [folder] * len(fits)))


def _one_thread() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)


def _kept(fit: Fit, folder: Path) -> Floats:
    more = ("benchmarks/auto",) if fit.method == "auto" else ()
    code = Code("now", NOW).digest(more) if fit.method in PRESETS else "scikit-learn"
    rows = hashlib.sha256(fit.table.x.tobytes() + fit.table.labels.tobytes() + fit.roles.tobytes()).hexdigest()[:12]
    path = folder / f"{fit.name.replace(' ', '_')}-{fit.method}-{fit.draw}-{rows}-{code}.npy"
    if not path.exists():
        partial = path.with_suffix(".partial.npy")
        np.save(partial, fitted(fit))
        partial.replace(path)
    return np.asarray(np.load(path))


def fitted(fit: Fit) -> Floats:
    """Fit a classifier to all rows except test rows, and return the probabilities [M, C] of the test rows.

    Those of a classifier that has none are 1 for the predicted class.
    """
    table, kept, tested = fit.table, fit.roles != "test", fit.roles == "test"
    p = np.zeros((int(tested.sum()), int(table.labels.max()) + 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if fit.method in PRESETS:
            classes, found = _ours(fit.method, table, kept, tested, fit.draw)
        else:
            model = PEERS[fit.method]().fit(table.x[kept], table.labels[kept])
            classes = model.classes_
            if fit.method in WITHOUT_PROBABILITIES:
                found = model.predict(table.x[tested])[:, None] == classes
            else:
                found = model.predict_proba(table.x[tested])
    p[:, classes] = found
    p = np.maximum(p, SMALLEST_P)
    return np.asarray(p / p.sum(1, keepdims=True))


def _ours(preset: str, table: Table, kept: Any, tested: Any, seed: int) -> tuple[Any, Any]:
    from frostbench.benchmarks.api import fit

    groups = None if table.groups is None else table.groups[kept]
    head = fit(table.x[kept], table.labels[kept], preset=preset, groups=groups, split={"test": 0}, seed=seed)
    return head.classes, head.predict_proba(table.x[tested])
