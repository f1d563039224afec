"""Leaks of a split: duplicates and near-duplicates of training rows among the held-out rows."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from frostbench.embedcache.counting import things
from frostbench.embedcache.index.groups import NEAR, content_pairs, distinct
from frostbench.embedcache.index.pairs import Pairs
from frostbench.embedcache.index.rows import Numbers, Vectors, column_of
from frostbench.embedcache.index.search import Method
from frostbench.embedcache.table import FeatureTable

HELD_OUT = ("select", "calibrate", "test")


@dataclass(frozen=True, eq=False)
class Leaks:
    """Held-out rows with a duplicate in training, and duplicates with different labels.

    Attributes:
        threshold: minimum cosine of a near-duplicate.
        column: vector column that was compared.
        rows: one line per held-out row with a duplicate in training: id, role, label, train_id, train_label, cosine,
            kind (identical or near); of several duplicates the nearest, and the first listed of equally near ones.
        summary: one line per held-out role: role, rows, identical, near, share (of its rows that are either).
        conflicts: one line per pair of duplicates with different labels: id, label, other_id, other_label, cosine,
            kind.
        method: exact or ivf.
        recall: recall of the search; 1 if all pairs were compared.
    """

    threshold: float
    column: str
    rows: pd.DataFrame
    summary: pd.DataFrame
    conflicts: pd.DataFrame
    method: str
    recall: float

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for the user."""
        notes = [
            f"{copies} of {rows} {role} rows ({copies / rows:.1%}) {'has' if copies == 1 else 'have'} a duplicate in "
            f"training, so {role} metrics are too optimistic. Set split.duplicates, or state groups."
            for role, rows, copies in self._found()
            if copies
        ]
        if len(self.conflicts):
            notes.append(
                f"{things(len(self.conflicts), 'pair of duplicates has', 'pairs of duplicates have')} different "
                "labels; at least one label of each is wrong."
            )
        if self.method != "exact":
            notes.append(f"The search was approximate: it finds {self.recall:.1%} of a sample's nearest neighbours.")
        return tuple(notes)

    def _found(self) -> list[tuple[str, int, int]]:
        """Return each held-out role with its number of rows and of rows with a duplicate in training."""
        copies = self.summary["identical"] + self.summary["near"]
        return list(zip(self.summary["role"].tolist(), self.summary["rows"].tolist(), copies.tolist(), strict=True))


def leaks(
    table: FeatureTable,
    roles: np.ndarray,
    threshold: float = NEAR,
    *,
    column: str | None = None,
    method: Method = "auto",
) -> Leaks:
    """Compare the held-out rows of a split with its training rows.

    Args:
        table: in memory or on disk.
        roles: str [N], as in `frostbench.embedcache.splits.making.Split.roles`.
        threshold: cosine from which images are near-duplicates.
        column: vector column; default: the first by name.
        method: exact, ivf, or auto (by the number of rows).

    Raises:
        ValueError: the number of roles differs from the number of rows; or see `duplicates`.
    """
    if roles.shape != table.ids.shape:
        raise ValueError(
            f"Each of the {len(table.ids)} rows needs a role, got roles of shape {list(roles.shape)}. "
            "Use the split of this table."
        )
    name = column_of(table, column)[0]
    pairs = content_pairs(table, threshold, name, method)
    first, number = distinct(table.content)
    twin, cosine = _in_training(roles, pairs, first, number)
    rows = _leaking(table, roles, twin, cosine, number)
    conflicts = pd.concat([_identical_conflicts(table, first, number), _near_conflicts(table, pairs, first)])
    return Leaks(
        threshold, name, rows, _summary(roles, rows), conflicts.reset_index(drop=True), pairs.method, pairs.recall
    )


def _in_training(roles: np.ndarray, pairs: Pairs, first: Numbers, number: Numbers) -> tuple[Numbers, Vectors]:
    """Return the nearest training row of each content (-1 if none is near enough), and their cosine."""
    count, train = len(first), np.flatnonzero(roles == "train")
    holder = np.full(count, -1, dtype=np.int64)
    holder[number[train][::-1]] = train[::-1]
    here, there = np.concatenate([pairs.first, pairs.second]), np.concatenate([pairs.second, pairs.first])
    cosine = np.concatenate([pairs.cosine, pairs.cosine])
    usable = holder[there] >= 0
    here, there, cosine = here[usable], there[usable], cosine[usable]
    order = np.lexsort((-holder[there], cosine.round(6)))
    twin, nearest = np.full(count, -1, dtype=np.int64), np.zeros(count, dtype=np.float32)
    # The last assignment wins: the nearest row, and the first listed of equally near ones.
    twin[here[order]], nearest[here[order]] = holder[there[order]], cosine[order]
    twin[holder >= 0], nearest[holder >= 0] = holder[holder >= 0], 1.0
    return twin, nearest


def _leaking(table: FeatureTable, roles: np.ndarray, twin: Numbers, cosine: Vectors, number: Numbers) -> pd.DataFrame:
    rows = np.flatnonzero(np.isin(roles, HELD_OUT) & (twin[number] >= 0))
    other, names = twin[number[rows]], np.array(table.class_names, dtype=str)
    same = table.content[rows] == table.content[other]
    found = pd.DataFrame(
        {
            "id": table.ids[rows],
            "role": roles[rows],
            "label": names[table.labels[rows]],
            "train_id": table.ids[other],
            "train_label": names[table.labels[other]],
            "cosine": cosine[number[rows]],
            "kind": np.where(same, "identical", "near"),
        }
    )
    return found.sort_values(["cosine", "id"], ascending=[False, True], ignore_index=True)


def _summary(roles: np.ndarray, rows: pd.DataFrame) -> pd.DataFrame:
    lines = []
    for role in HELD_OUT:
        count = int((roles == role).sum())
        mine = rows[rows["role"] == role]
        if count:
            identical = int((mine["kind"] == "identical").sum())
            lines.append((role, count, identical, len(mine) - identical, len(mine) / count))
    return pd.DataFrame(lines, columns=["role", "rows", "identical", "near", "share"])


def _identical_conflicts(table: FeatureTable, first: Numbers, number: Numbers) -> pd.DataFrame:
    """Pair each row with the first byte-identical row, and return the pairs with different labels."""
    rows = np.flatnonzero(table.labels != table.labels[first[number]])
    return _conflicts(table, first[number[rows]], rows, np.ones(len(rows), np.float32), "identical")


def _near_conflicts(table: FeatureTable, pairs: Pairs, first: Numbers) -> pd.DataFrame:
    one, two = first[pairs.first], first[pairs.second]
    differ = table.labels[one] != table.labels[two]
    found = _conflicts(table, one[differ], two[differ], pairs.cosine[differ], "near")
    return found.sort_values(["cosine", "id"], ascending=[False, True])


def _conflicts(table: FeatureTable, one: Numbers, two: Numbers, cosine: Vectors, kind: str) -> pd.DataFrame:
    names = np.array(table.class_names, dtype=str)
    return pd.DataFrame(
        {
            "id": table.ids[one],
            "label": names[table.labels[one]],
            "other_id": table.ids[two],
            "other_label": names[table.labels[two]],
            "cosine": cosine,
            "kind": np.full(len(one), kind, dtype=object),
        }
    )
