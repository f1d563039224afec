"""Probable label errors."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from frostbench.embedcache.counting import things
from frostbench.embedcache.index.confident import confident_classes, normalised_margin, self_confidence
from frostbench.embedcache.index.groups import NEAR, joined_groups, near_groups
from frostbench.embedcache.index.out_of_sample import Floats, neighbour_agreement, ridge_probabilities
from frostbench.embedcache.index.rows import Numbers, column_of
from frostbench.embedcache.index.search import Method
from frostbench.embedcache.splits.cuts import merge_groups
from frostbench.embedcache.splits.folds import cut
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.table import FeatureTable


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
    name, vectors = column_of(table, column)
    fold = _folds(table, name, folds, seed, near, method)
    p = ridge_probabilities(vectors, table.labels, fold, len(table.class_names))
    agreement = neighbour_agreement(vectors, table.labels, fold, k, method)
    scored = self_confidence(table.labels, p) > 0
    rows = _rows(table, p, agreement, scored)
    unscored = np.flatnonzero(~scored)
    return Suspects(name, rows, _confusions(rows), len(unscored), _warnings(table, unscored))


def _confusions(rows: pd.DataFrame) -> pd.DataFrame:
    wrong = rows[rows["suspect"]]
    found = wrong.groupby(["label", "suggested"]).size().rename("rows").reset_index()
    return found.sort_values(["rows", "label", "suggested"], ascending=[False, True, True], ignore_index=True)


def _warnings(table: FeatureTable, unscored: Numbers) -> tuple[str, ...]:
    if not len(unscored):
        return ()
    return (
        f"{things(len(unscored), 'row', 'rows')} could not be scored, because all rows of the same class are in one "
        f"fold: {_few(np.unique(table.labels[unscored]), table)}. Add images of other groups.",
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


def _rows(table: FeatureTable, p: Floats, agreement: Floats, scored: np.ndarray) -> pd.DataFrame:
    names, labels = np.array(table.class_names, dtype=str), table.labels[scored]
    seen = p[scored]
    others = seen.copy()
    others[np.arange(len(labels)), labels] = -1
    counted = confident_classes(labels, seen)
    suspect = (counted >= 0) & (counted != labels)
    found = pd.DataFrame(
        {
            "id": table.ids[scored],
            "label": names[labels],
            "suggested": names[np.where(suspect, counted, others.argmax(axis=1))],
            "self_confidence": self_confidence(labels, seen),
            "margin": normalised_margin(labels, seen),
            "agreement": agreement[scored],
            "suspect": suspect,
        }
    )
    return found.sort_values(["self_confidence", "id"], ignore_index=True)


def _few(labels: np.ndarray, table: FeatureTable, most: int = 5) -> str:
    names = [table.class_names[label] for label in labels[:most]]
    return ", ".join(names) + (" …" if len(labels) > most else "")
