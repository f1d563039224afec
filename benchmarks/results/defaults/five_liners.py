"""What five lines of scikit-learn get on the same vectors and rows as `frostbench.fit` with a preset."""

import hashlib
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from frostbench.benchmarks.results.defaults.cuts import Roles, cut, overlap_of
from frostbench.benchmarks.results.defaults.jobs import NOW, Code
from frostbench.benchmarks.results.defaults.scores import Score, difference, score
from frostbench.benchmarks.results.markdown import table_head, table_line
from frostbench.benchmarks.results.tables import Table
from frostbench.embedcache.extraction.pipeline import usable_cores

PEERS: Mapping[str, Callable[[], Any]] = MappingProxyType(
    {
        "LogisticRegressionCV": lambda: make_pipeline(
            StandardScaler(),
            LogisticRegressionCV(Cs=np.logspace(-5, 0, 6), cv=3, max_iter=500, scoring="neg_log_loss"),
        ),
        "RidgeClassifierCV": lambda: make_pipeline(StandardScaler(), RidgeClassifierCV(alphas=np.logspace(0, 5, 6))),
        "LDA": lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
        "SVC": lambda: make_pipeline(StandardScaler(), CalibratedClassifierCV(SVC(), ensemble=False)),
        "kNN": lambda: make_pipeline(StandardScaler(), KNeighborsClassifier()),
        "HistGB": lambda: HistGradientBoostingClassifier(max_iter=50, random_state=0),
    }
)
"""scikit-learn's classifiers; LogisticRegressionCV and HistGB get less than their defaults, to save time (`SAVED`)."""
SAVED = (
    "To save time, LogisticRegressionCV has 3 folds and 6 values of C (default 5 and 10), and HistGB 50 iterations "
    "(default 100)."
)
WITHOUT_PROBABILITIES = ("RidgeClassifierCV",)
PRESETS = ("auto", "baseline", "plain", "logreg", "lda", "ridge", "full")
SMALLEST_P = 1e-6
"""Probabilities are raised to this, because kNN's are 0 for classes without a neighbour."""


class Fit(NamedTuple):
    """A classifier to fit: its name, a table with its name, and the role of each row."""

    method: str
    table: Table
    name: str
    roles: Roles
    draw: int


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
    code = Code("now", NOW).digest() if fit.method in PRESETS else "scikit-learn"
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


def beside_five_liners(makers: Mapping[str, Callable[[int], Table]], draws: int, folder: Path) -> Iterator[str]:
    """Yield tables of macro F1 and NLL of all presets and peers, and how `auto` stands against the best peer.

    Args:
        makers: function from draw to table, by table name.
        draws: number of random splits, or simulations, of each table; at least 2.
        folder: folder of finished fits.
    """
    methods = (*PRESETS, *PEERS)
    scores: dict[tuple[str, str], list[Score]] = {}
    overlaps: dict[str, float] = {}
    for name, make in makers.items():
        tables = [make(draw) for draw in range(draws)]
        roles = [cut(table, draw) for draw, table in enumerate(tables)]
        overlaps[name] = overlap_of(tables[-1], roles[-1])
        fits = [Fit(m, tables[d], name, roles[d], d) for m in methods for d in range(draws)]
        found = all_fitted(fits, folder)
        for fit, p in zip(fits, found, strict=True):
            scores.setdefault((name, fit.method), []).append(_score(p, fit))
    yield from ("## Beside five lines of scikit-learn", "")
    yield f"Means over {draws} draws, on the same vectors; every method gets all rows except the test rows. The best"
    yield from ("preset and the best classifier of scikit-learn are bold.", SAVED, "")
    for key, title in (("macro_f1", "Macro F1"), ("nll", "NLL")):
        yield from (f"{title}:", "", *table_head("vectors", methods))
        for name in makers:
            means = {m: float(np.mean([getattr(s, key) for s in scores[name, m]])) for m in methods}
            yield table_line([name, *_with_best(means, key)])
        yield ""
    yield from ("`auto` less each of them, with 95 % intervals:", "", *table_head("macro F1 / NLL", [*PEERS]))
    for name in makers:
        cells = [_against(scores[name, "auto"], scores[name, peer], overlaps[name], peer) for peer in PEERS]
        yield table_line([name, *cells])
    yield ""


def _score(p: Floats, fit: Fit) -> Score:
    """Score probabilities, of which training rows are all rows except test rows."""
    return score(p, fit.table, np.where(fit.roles == "test", "test", "train"))


def _with_best(means: Mapping[str, float], key: str) -> list[str]:
    """Return a cell per method, with the best preset and the best peer in bold."""
    usable = {m: value for m, value in means.items() if key == "macro_f1" or m not in WITHOUT_PROBABILITIES}
    best = max if key == "macro_f1" else min
    marked = [best((m for m in side if m in usable), key=usable.__getitem__) for side in (PRESETS, tuple(PEERS))]
    texts = {m: f"{value:.3f}" for m, value in usable.items()}
    return [f"**{texts[m]}**" if m in marked else texts.get(m, "") for m in means]


def _against(ours: Sequence[Score], theirs: Sequence[Score], overlap: float, peer: str) -> str:
    keys = ("macro_f1",) if peer in WITHOUT_PROBABILITIES else ("macro_f1", "nll")
    found = [difference([getattr(s, k) for s in ours], [getattr(s, k) for s in theirs], overlap) for k in keys]
    return " / ".join(f"**{value}**" if value.low > 0 or value.high < 0 else str(value) for value in found)
