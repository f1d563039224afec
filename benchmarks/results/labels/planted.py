"""Planted label errors: how many are among the first labels to check, and what correcting these gains."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from frostbench.benchmarks.results.labels.pools import Pool, score_of
from frostbench.embedcache.index import SuspectRanker
from frostbench.embedcache.index.confident import Floats, self_confidence
from frostbench.embedcache.index.rows import Numbers, to_unit

CHECKED = 100
"""Number of labels that a person checks."""
RATES = (0.05, 0.2)
KINDS: tuple[Literal["uniform", "near"], ...] = ("uniform", "near")
"""Wrong labels are any other class, or the class whose mean vector is nearest to that of the right one."""


@dataclass(frozen=True)
class Found:
    """What checking the first `CHECKED` labels of an order did.

    Attributes:
        kind: how errors were planted.
        rate: share of labels that were.
        order: what ordered the labels.
        planted: number of planted errors.
        found: number of them among the labels checked.
        clean: macro F1 of a head without planted errors.
        damaged: macro F1 of a head with all of them.
        corrected: macro F1 of a head after those that were found have their right label again.
    """

    kind: str
    rate: float
    order: str
    planted: int
    found: int
    clean: float
    damaged: float
    corrected: float


def planted_errors(pool: Pool, seed: int) -> Iterator[Found]:
    """Yield what each order finds, for each kind and rate of errors."""
    ranker, every = SuspectRanker(pool.table), np.arange(len(pool.labels))
    clean = score_of(pool, every)
    for place, (kind, rate) in enumerate((kind, rate) for kind in KINDS for rate in RATES):
        rng = np.random.default_rng([seed, place])
        labels = damaged_labels(pool, kind, rate, rng)
        wrong, damaged = labels != pool.labels, score_of(pool, every, labels)
        for name, order in orders(ranker, pool, labels, rng).items():
            checked = order[:CHECKED]
            mended = labels.copy()
            mended[checked] = pool.labels[checked]
            found, corrected = int(wrong[checked].sum()), score_of(pool, every, mended)
            yield Found(kind, rate, name, int(wrong.sum()), found, clean, damaged, corrected)


def damaged_labels(pool: Pool, kind: Literal["uniform", "near"], rate: float, rng: np.random.Generator) -> Numbers:
    """Return labels [N] of which a share is wrong."""
    labels, there = pool.labels.copy(), np.unique(pool.labels)
    rows = rng.choice(len(labels), round(rate * len(labels)), replace=False)
    if kind == "near":
        near = nearest_classes(pool)
        labels[rows] = near[labels[rows]]
        return labels
    place = np.searchsorted(there, labels[rows])
    labels[rows] = there[(place + rng.integers(1, len(there), len(rows))) % len(there)]
    return labels


def nearest_classes(pool: Pool) -> Numbers:
    """Return for each class [C] the other one whose mean vector has the highest cosine; -1 for a class without rows."""
    there, own = np.unique(pool.labels, return_inverse=True)
    (vectors,) = pool.table.columns.values()
    x = to_unit(vectors)
    means = to_unit(np.stack([x[own == i].mean(axis=0) for i in range(len(there))]))
    cosine = means @ means.T
    np.fill_diagonal(cosine, -np.inf)
    near = np.full(pool.classes, -1)
    near[there] = there[cosine.argmax(axis=1)]
    return near


def orders(ranker: SuspectRanker, pool: Pool, labels: Numbers, rng: np.random.Generator) -> Mapping[str, Numbers]:
    """Return rows in the order in which they are to be checked, by the name of what orders them."""
    place = {image: row for row, image in enumerate(pool.table.ids.tolist())}
    ranked = ranker.rank(labels, pool.table.class_names).rows
    rows = np.array([place[image] for image in ranked["id"]])
    p = ranker.probabilities(labels, pool.classes)
    return {
        "suspects": rows[np.argsort(~ranked["suspect"].to_numpy(), kind="stable")],
        "self_confidence": rows,
        "agreement": rows[np.argsort(ranked["agreement"].to_numpy(), kind="stable")],
        "cleanlab": by_cleanlab(labels, p),
        "random": rng.permutation(len(labels)),
    }


def by_cleanlab(labels: Numbers, p: Floats) -> Numbers:
    """Return the label issues by cleanlab's default filter, ranked by normalised margin, then all other rows."""
    from cleanlab.filter import find_label_issues

    there, own = np.unique(labels, return_inverse=True)
    seen = p[:, there] / p[:, there].sum(axis=1, keepdims=True)
    first = find_label_issues(own, seen, return_indices_ranked_by="normalized_margin", n_jobs=1)
    others = np.argsort(self_confidence(own, seen), kind="stable")
    return np.concatenate([first, others[~np.isin(others, first)]]).astype(np.int64)
