"""Data sets of the label loop: vectors of a pool whose labels are bought one by one, and of test images."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from sklearn.decomposition import PCA

from frostbench.benchmarks.results.images import Source, cache_of
from frostbench.embedcache.index.rows import Numbers, Vectors, to_unit
from frostbench.embedcache.splits.making import SplitSpec, make_split
from frostbench.embedcache.table import FeatureTable, read_table
from frostbench.heads.closed_form.lda import Lda
from frostbench.heads.fitting_rows import Rows
from frostbench.training.metrics.counts import f1

BACKBONE = "efficientnet_lite0"
DIMENSIONS = 256
"""Principal components of the pool's unit vectors, computed without labels; they keep a fit below 0.1 s."""


@dataclass(frozen=True)
class PoolSource:
    """A data set: its images, settings of its split, and the most rows of its pool, drawn at random from all others."""

    source: Source
    split: Mapping[str, str] = field(default_factory=dict)
    most: int | None = None


SOURCES = {
    "coins": PoolSource(Source("coins")),
    "groceries": PoolSource(Source("grocery"), {"source": "given"}),
    "blood cells": PoolSource(Source("blood_cells", 150)),
    "plankton": PoolSource(Source("plankton"), most=6_000),
}
"""Test rows are 20 %, drawn by group with the seed of the draw; those of groceries are the official ones."""


@dataclass(frozen=True, eq=False)
class Pool:
    """Rows whose labels are bought or damaged, and test rows.

    Attributes:
        table: the N rows of the pool.
        x: their vectors [N, D], D at most `DIMENSIONS`.
        test_x: vectors [M, D] of the test rows.
        test_labels: int [M].
        overlap: ratio of test rows to rows of the pool if draws share most of them, else 0 (see `difference`).
    """

    table: FeatureTable
    x: Vectors
    test_x: Vectors
    test_labels: Numbers
    overlap: float

    @property
    def labels(self) -> Numbers:
        """Labels of the pool, int [N]."""
        return self.table.labels

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.table.class_names)


def roles_of(table: FeatureTable, own: PoolSource, seed: int) -> npt.NDArray[np.str_]:
    """Return "pool", "test" or "unused" for each row, str [N]; a seed draws the test rows and the pool."""
    shares = {} if own.split else {"select": 0.0, "calibrate": 0.0}
    spec = SplitSpec.model_validate({"seed": seed, **shares, **own.split})
    roles = np.where(make_split(table, spec).roles == "test", "test", "pool").astype("<U6")
    rows = np.flatnonzero(roles == "pool")
    if own.most is not None and len(rows) > own.most:
        roles[np.random.default_rng(seed).permutation(rows)[own.most :]] = "unused"
    return roles


@lru_cache(maxsize=1)
def table_of(work: Path, name: str) -> FeatureTable:
    """Return the table of a data set's cache."""
    return read_table(cache_of(work, SOURCES[name].source, BACKBONE))


@lru_cache(maxsize=1)
def pool_of(work: Path, name: str, seed: int) -> Pool:
    """Return the pool and the test rows of a data set."""
    own, table = SOURCES[name], table_of(work, name)
    ((column, vectors),) = table.columns.items()
    roles, x = roles_of(table, own, seed), to_unit(vectors)
    pool, test = roles == "pool", roles == "test"
    turn = PCA(min(DIMENSIONS, int(pool.sum()), x.shape[1]), svd_solver="covariance_eigh").fit(x[pool])
    turned, held = (turn.transform(x[rows]).astype(np.float32) for rows in (pool, test))
    part = replace(
        table,
        ids=table.ids[pool],
        columns={column: vectors[pool]},
        labels=table.labels[pool],
        groups=table.groups[pool],
        content=table.content[pool],
        split=None,
        times=None,
    )
    overlap = 0.0 if own.split or test.sum() > pool.sum() else float(test.sum() / pool.sum())
    return Pool(part, turned, held, table.labels[test], overlap)


def probabilities(x: Vectors, labels: Numbers, *others: Vectors) -> list[npt.NDArray[np.float64]]:
    """Return the probabilities [M, C] of other rows by LDA with shrunk covariance fitted to rows, per array of rows.

    Classes without labels have no column of their own: column c is the c-th class among `np.unique(labels)`.
    """
    classes, own = np.unique(labels, return_inverse=True)
    weight = torch.ones(len(x), dtype=torch.float64)
    layer = Lda().fit(Rows(torch.from_numpy(x), torch.from_numpy(own), weight, len(classes)))
    with torch.inference_mode():
        return [layer(torch.from_numpy(one)).double().softmax(1).numpy() for one in others]


def macro_f1(labels: Numbers, predicted: Numbers, classes: int) -> float:
    """Return the mean F1 of the classes with test rows; a class that was never labelled counts as 0."""
    right = np.bincount(labels[labels == predicted], minlength=classes)
    support, found = np.bincount(labels, minlength=classes), np.bincount(predicted, minlength=classes)
    return float(f1(right, support, found)[support > 0].mean())


def score_of(pool: Pool, rows: Numbers, labels: Numbers | None = None) -> float:
    """Return the test macro F1 of a head fitted to rows of the pool, with their labels or other ones [N]."""
    own = (pool.labels if labels is None else labels)[rows]
    (p,) = probabilities(pool.x[rows], own, pool.test_x)
    return macro_f1(pool.test_labels, np.unique(own)[p.argmax(axis=1)], pool.classes)
