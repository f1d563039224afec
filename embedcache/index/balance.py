"""Rows and groups per class, with warnings about classes that are too small."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from frostbench.embedcache.counting import things
from frostbench.embedcache.index.rows import Numbers
from frostbench.embedcache.splits.cuts import merge_groups
from frostbench.embedcache.table import FeatureTable

MANY_ABOVE = 100
FEW_BELOW = 20
"""Classes with more than 100 training rows are many-shot, with 1 to 19 few-shot (Kang et al., ICLR 2020)."""
ROLES = ("train", "select", "calibrate", "test")
SHOWN = 8


@dataclass(frozen=True, eq=False)
class Balance:
    """Class sizes of a table.

    Attributes:
        classes: one line per class, in the table's order: class, rows, groups, the rows of each role, shots (many,
            medium, few or none, by training rows; by all rows if there is no split).
        imbalance_ratio: size of the largest class divided by that of the smallest non-empty one.
        effective_classes: exp of the entropy of the class shares: C if all are equal, near 1 if one class dominates.
        warnings: sentences for the user.
    """

    classes: pd.DataFrame
    imbalance_ratio: float
    effective_classes: float
    warnings: tuple[str, ...]


def balance(table: FeatureTable, roles: np.ndarray | None = None, least: int = 5) -> Balance:
    """Count the rows and groups of each class.

    Args:
        table: the table; its vectors are not read.
        roles: str [N], as in `frostbench.embedcache.splits.making.Split.roles`; None counts no roles.
        least: warn of classes with fewer rows or groups than this.

    Raises:
        ValueError: the table is empty, or the number of roles differs from the number of rows.
    """
    if len(table.ids) == 0 or (roles is not None and roles.shape != table.ids.shape):
        rows, given = things(len(table.ids), "row", "rows"), "no roles"
        given = given if roles is None else things(len(roles), "role", "roles")
        raise ValueError(
            f"Counting classes needs at least one row and one role per row, got {rows} and {given}. Embed images, or "
            "use the split of this table."
        )
    size = len(table.class_names)
    groups = merge_groups(table.groups, table.content)
    each = np.unique(np.stack([table.labels, groups]), axis=1)[0]
    counts = np.bincount(table.labels, minlength=size)
    lines: dict[str, object] = {
        "class": list(table.class_names),
        "rows": counts,
        "groups": np.bincount(each, minlength=size),
    }
    used = [role for role in ROLES if roles is not None and (roles == role).any()]
    lines |= {role: np.bincount(table.labels[roles == role], minlength=size) for role in used}
    classes = pd.DataFrame(lines)
    classes["shots"] = _shots(counts if roles is None else np.bincount(table.labels[roles == "train"], minlength=size))
    there = counts[counts > 0]
    shares = there / there.sum()
    effective = float(np.exp(-(shares * np.log(shares)).sum()))
    notes = _warnings(classes, used, least, table.has_groups)
    return Balance(classes, float(there.max() / there.min()), effective, tuple(notes))


def _shots(train: Numbers) -> np.ndarray:
    return np.select([train > MANY_ABOVE, train >= FEW_BELOW, train > 0], ["many", "medium", "few"], default="none")


def _warnings(classes: pd.DataFrame, used: list[str], least: int, has_groups: bool) -> list[str]:
    present = classes[classes["rows"] > 0]
    notes = [
        _note(classes[classes["rows"] == 0], "no row, so {they} can be neither learned nor evaluated"),
        _note(present[present["rows"] < least], f"fewer than {least} rows, so {{their}} metrics are mostly noise"),
    ]
    if has_groups:
        notes.append(
            _note(
                present[(present["groups"] < least) & (present["rows"] >= least)],
                f"fewer than {least} groups, so {{their}} rows are not independent",
            )
        )
    single = present[(present["groups"] == 1) & (present["rows"] > 1)]
    notes.append(_note(single, "one group, which a split cannot divide"))
    if "train" in used:
        unseen = present[present["train"] == 0]
        notes.append(_note(unseen, "no training row, so all {their} rows count as errors"))
    for role in used:
        if role != "train":
            lost = (
                present[(present[role] == 0) & (present["train"] > 0)]
                if "train" in used
                else present[present[role] == 0]
            )
            notes.append(_note(lost, f"no {role} row, so metrics of that role do not cover {{them}}"))
    return [note for note in notes if note]


def _note(lines: pd.DataFrame, what: str) -> str:
    if lines.empty:
        return ""
    names = ", ".join(lines["class"][:SHOWN]) + (" …" if len(lines) > SHOWN else "")
    one = len(lines) == 1
    words = dict(zip(("they", "them", "their"), ("it", "it", "its") if one else ("they", "them", "their"), strict=True))
    return f"{things(len(lines), 'class has', 'classes have')} {what.format(**words)}: {names}."
