"""Tells images that are unlike every training image, by the distance to the nearest of them.

Sun et al., "Out-of-Distribution Detection with Deep Nearest Neighbors", ICML 2022: an image is out of distribution if
its k-th nearest training vector, after L2 normalisation, is farther than a threshold that keeps 95 % of held-out
images. Here k is 1, because small classes may have a single training image.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from frostbench.embedcache.index.rows import Numbers, UnitRows, Vectors, to_unit
from frostbench.embedcache.index.search import nearest
from frostbench.embedcache.table import FeatureTable

KEPT = 0.95
"""Share of the validation images whose nearest training image is closer than the threshold."""
FEWEST = 40
"""Smallest number of validation images from which a threshold is taken: a 95 % quantile of fewer is a guess."""
MOST = 2000
"""Largest number of images that are compared for a threshold, and for its rate of false alarms."""


@dataclass(frozen=True, eq=False)
class Novelty:
    """Training images of a head, and from which cosine on an image counts as unlike all of them.

    Attributes:
        rows: [N, D] unit vectors of the training images; several columns of the head are concatenated.
        ids: [N] ids of these images.
        labels: [N] their class indices.
        threshold: an image is unlike the training images if its largest cosine to one of them is smaller.
        false_alarms: share of images that the threshold wrongly flags, measured on images that did not set it.
        measured_on: number of these images.
    """

    rows: UnitRows
    ids: npt.NDArray[np.str_]
    labels: Numbers
    threshold: float
    false_alarms: float
    measured_on: int

    def nearest(self, vectors: Sequence[np.ndarray], k: int) -> tuple[Numbers, Vectors]:
        """Return the training rows [Q, k] nearest to images, and their cosines [Q, k], the nearest first.

        Args:
            vectors: one [Q, D] per column of the head.
            k: number of rows; if there are fewer training images, all are returned.
        """
        found = nearest(UnitRows(joined(vectors)), self.rows, min(k, len(self.ids)))
        return found.rows, found.cosine


def joined(vectors: Sequence[np.ndarray]) -> Vectors:
    """Concatenate columns [N, D] as unit vectors, so that cosines are the mean of the columns' cosines.

    >>> [[f"{value:.3f}" for value in row] for row in joined([np.array([[3.0, 4.0]]), np.array([[2.0]])]).tolist()]
    [['0.424', '0.566', '0.707']]
    """
    together: Vectors = np.concatenate([to_unit(one) for one in vectors], axis=1)
    together /= np.float32(len(vectors) ** 0.5)
    return together


def novelty_of(
    table: FeatureTable, columns: Sequence[str], validation: Collection[str], test: Collection[str]
) -> Novelty:
    """Set the threshold on the validation images of a run and measure its false alarms on its test images.

    Without test images, half of the validation images set the threshold, and it is measured on the other half.

    Args:
        table: table that the head was trained on, in memory or on disk.
        columns: vector columns that the head reads.
        validation: ids of the validation images.
        test: ids of the test images.

    Raises:
        ValueError: there are fewer than `FEWEST` validation images to set a threshold, or no training images.
    """
    held = {"select": _rows(table, validation), "test": _rows(table, test)}
    seen = np.setdiff1d(np.arange(len(table.ids)), np.concatenate(list(held.values())))
    setting, measuring = _drawn(held["select"], held["test"])
    if len(setting) < FEWEST or not len(seen):
        raise ValueError(
            f"At least {FEWEST} validation images are needed to say what is unlike the training images, but there are "
            f"{len(setting)}{'' if len(seen) else ', and no training images'}. Use a split with more of them."
        )
    found = Novelty(UnitRows(_vectors(table, columns, seen)), table.ids[seen], table.labels[seen], 0.0, 0.0, 0)
    best = {name: _best(found, table, columns, rows) for name, rows in (("set", setting), ("measure", measuring))}
    threshold = float(np.quantile(best["set"], 1 - KEPT))
    return replace(
        found,
        threshold=threshold,
        false_alarms=float((best["measure"] < threshold).mean()),
        measured_on=len(measuring),
    )


def _drawn(validation: Numbers, test: Numbers) -> tuple[Numbers, Numbers]:
    """Return the rows that set a threshold and those that measure it, at most `MOST` of each, drawn with seed 0."""
    random = np.random.default_rng(0)
    validation = random.permutation(validation)
    if len(test):
        return np.sort(validation[:MOST]), np.sort(random.permutation(test)[:MOST])
    half = (len(validation) + 1) // 2
    return np.sort(validation[:half][:MOST]), np.sort(validation[half:][:MOST])


def _rows(table: FeatureTable, ids: Collection[str]) -> Numbers:
    return np.flatnonzero(np.isin(table.ids, list(ids)))


def _vectors(table: FeatureTable, columns: Sequence[str], rows: Numbers) -> Vectors:
    return joined([_column(table, name).only(rows).block(0, len(rows)) for name in columns])


def _column(table: FeatureTable, name: str) -> UnitRows:
    return UnitRows((table.stored or table.columns)[name])


def _best(novelty: Novelty, table: FeatureTable, columns: Sequence[str], rows: Numbers) -> Vectors:
    return nearest(UnitRows(_vectors(table, columns, rows)), novelty.rows, 1).cosine[:, 0]
