"""Probable label errors."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from frostbench.embedcache.counting import things
from frostbench.embedcache.index.confident import confident_classes, normalised_margin, self_confidence
from frostbench.embedcache.index.groups import NEAR, joined_groups, near_groups
from frostbench.embedcache.index.out_of_sample import LEFT_OUT, Floats, FoldNeighbours, FoldRidge
from frostbench.embedcache.index.rows import Numbers, UnitRows, column_of
from frostbench.embedcache.index.search import Method
from frostbench.embedcache.splits.cuts import merge_groups
from frostbench.embedcache.splits.folds import cut
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.table import FeatureTable

MOST_IN_MEMORY = 2**27
"""Largest number of float32 values, 512 MiB, that a ranker keeps; larger columns are read for each ranking."""


@dataclass(frozen=True, eq=False)
class Suspects:
    """Scored rows, the most suspicious label first.

    Attributes:
        column: vector column that was used.
        rows: one line per row: id, label, suggested (the class that confident learning assigns to a suspect; else the
            most probable other class), self_confidence, margin, agreement, suspect (see `suspects`).
        confusions: one line per pair of classes with suspects: label, suggested, rows; the most frequent first.
        unscored: number of rows that cannot be scored because their class is in no other fold.
        warnings: sentences for the user.
    """

    column: str
    rows: pd.DataFrame
    confusions: pd.DataFrame
    unscored: int
    warnings: tuple[str, ...]


def suspects(
    table: FeatureTable,
    *,
    column: str | None = None,
    k: int = 20,
    folds: int = 5,
    seed: int = 42,
    near: float | None = NEAR,
    method: Method = "auto",
) -> Suspects:
    """Score the label of each row with predictions from the other folds.

    Folds never divide groups, duplicates or near-duplicates, so images of the same object do not support each other.
    self_confidence is the out-of-sample probability of the row's label by ridge regression, margin its lead over the
    most probable other class as (lead + 1) / 2, and agreement the share of votes for its label among its k nearest
    neighbours. A row is a suspect if confident learning (Northcutt et al., JAIR 2021) assigns it to another class.

    Args:
        table: in memory or on disk.
        column: vector column; default: the first by name.
        k: number of voting neighbours.
        folds: at least 2.
        seed: seed of the folds.
        near: cosine from which near-duplicates stay in one fold; None keeps only groups and duplicates together.
        method: how neighbours are searched.

    Raises:
        ValueError: there is only one class, there are fewer groups than folds, no class has as many rows as folds, or
            there is no such column.
    """
    ranker = SuspectRanker(table, column=column, k=k, folds=folds, seed=seed, near=near, method=method)
    return ranker.rank(table.labels, table.class_names)


class SuspectRanker:
    """Scores the labels of a table again whenever some of them are changed; see `suspects`.

    Folds, neighbours and scatters are computed once from the table as it is; only what depends on labels is computed
    for each ranking.
    """

    def __init__(
        self,
        table: FeatureTable,
        *,
        column: str | None = None,
        k: int = 20,
        folds: int = 5,
        seed: int = 42,
        near: float | None = NEAR,
        method: Method = "auto",
    ) -> None:
        self.column, rows = column_of(table, column)
        if rows.shape[0] * rows.shape[1] <= MOST_IN_MEMORY:
            rows = UnitRows(rows.block(0, rows.shape[0]))
        fold = _folds(table, self.column, folds, seed, near, method)
        self._ids, self._ridge = table.ids, FoldRidge(rows, fold)
        self._neighbours = FoldNeighbours(rows, fold, k, method)

    def probabilities(self, labels: Numbers, classes: int) -> Floats:
        """Predict the class probabilities of each row [N, C] without its own fold; see `FoldRidge.probabilities`.

        Args:
            labels: int [N]; -1 for rows that are predicted, but not used.
            classes: C.
        """
        return self._ridge.probabilities(labels, classes)

    def rank(self, labels: Numbers, class_names: Sequence[str]) -> Suspects:
        """Score labels of the table's rows.

        Args:
            labels: int [N], indices into `class_names`; -1 leaves a row out.
            class_names: names of the C classes.
        """
        names = np.array(class_names, dtype=str)
        p = self.probabilities(labels, len(names))
        agreement = self._neighbours.agreement(labels)
        used = labels != LEFT_OUT
        scored = used & (self_confidence(labels, p) > 0)
        rows = _rows(self._ids[scored], labels[scored], names, p[scored], agreement[scored])
        unscored = np.flatnonzero(used & ~scored)
        return Suspects(self.column, rows, _confusions(rows), len(unscored), _warnings(labels[unscored], names))


def _confusions(rows: pd.DataFrame) -> pd.DataFrame:
    wrong = rows[rows["suspect"]]
    found = wrong.groupby(["label", "suggested"]).size().rename("rows").reset_index()
    return found.sort_values(["rows", "label", "suggested"], ascending=[False, True, True], ignore_index=True)


def _warnings(unscored: Numbers, names: np.ndarray) -> tuple[str, ...]:
    if not len(unscored):
        return ()
    return (
        f"{things(len(unscored), 'row', 'rows')} could not be scored, because all rows of the same class are in one "
        f"fold: {_few(names[np.unique(unscored)])}. Add images of other groups.",
    )


def _folds(table: FeatureTable, column: str, folds: int, seed: int, near: float | None, method: Method) -> Numbers:
    if len(np.unique(table.labels)) < 2:
        raise CacheError(
            "Finding suspect labels needs at least two classes, but all rows have the same label. Add other classes."
        )
    groups = merge_groups(table.groups, table.content)
    if near is not None:
        groups = joined_groups(groups, near_groups(table, near, column, method))
    found = len(np.unique(groups))
    largest = np.bincount(table.labels).max(initial=0)
    if folds < 2 or min(found, largest) < folds:
        raise CacheError(
            f"folds must be at least 2, and at most the number of groups ({found}) and the number of rows of the "
            f"largest class ({largest}), got {folds}. Change folds, or add images."
        )
    return cut(table.labels, groups, folds, seed, table.has_groups)


def _rows(ids: np.ndarray, labels: Numbers, names: np.ndarray, seen: Floats, agreement: Floats) -> pd.DataFrame:
    others = seen.copy()
    others[np.arange(len(labels)), labels] = -1
    counted = confident_classes(labels, seen)
    suspect = (counted >= 0) & (counted != labels)
    found = pd.DataFrame(
        {
            "id": ids,
            "label": names[labels],
            "suggested": names[np.where(suspect, counted, others.argmax(axis=1))],
            "self_confidence": self_confidence(labels, seen),
            "margin": normalised_margin(labels, seen),
            "agreement": agreement,
            "suspect": suspect,
        }
    )
    return found.sort_values(["self_confidence", "id"], ignore_index=True)


def _few(names: np.ndarray, most: int = 5) -> str:
    return ", ".join(names[:most].tolist()) + (" …" if len(names) > most else "")
