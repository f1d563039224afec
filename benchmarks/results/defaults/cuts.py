"""Random assignment of rows to the roles train, select, calibrate and test."""

import numpy as np
import numpy.typing as npt

from frostbench.benchmarks.results.tables import Table

Roles = npt.NDArray[np.str_]
SHARES = {"select": 0.15, "calibrate": 0.1, "test": 0.15}
"""Shares of each class, or of the groups if there are any; the rest is for training."""
FEW = {"train": 120, "select": 60, "calibrate": 60}
"""Rows of a small table; the rest is for testing."""


def cut(table: Table, draw: int) -> Roles:
    """Return the role [N] of each row, splitting whole groups, or class by class without groups."""
    rng = np.random.default_rng(draw)
    if table.groups is not None:
        names, group_of_row = np.unique(table.groups, return_inverse=True)
        return _parted(rng.permutation(len(names)))[group_of_row]
    roles = np.full(len(table.labels), "train", dtype="<U9")
    for label in np.unique(table.labels):
        rows = np.flatnonzero(table.labels == label)
        roles[rows] = _parted(rng.permutation(len(rows)))
    return roles


def few(table: Table, draw: int) -> Roles:
    """Return roles [N] with the numbers of rows in `FEW`, drawn from all; groups are not kept together."""
    order = np.random.default_rng(draw).permutation(len(table.labels))
    roles = np.full(len(order), "test", dtype="<U9")
    for role, part in zip(FEW, np.split(order, np.cumsum(list(FEW.values())))[:-1], strict=True):
        roles[part] = role
    return roles


def overlap_of(table: Table, roles: Roles) -> float:
    """Return the ratio of test to training rows if draws share most training rows, else 0."""
    tested, trained = (int((roles == role).sum()) for role in ("test", "train"))
    return 0.0 if table.is_drawn or tested > trained else tested / trained


def _parted(order: npt.NDArray[np.int64]) -> Roles:
    roles = np.full(len(order), "train", dtype="<U9")
    ends = np.cumsum([round(share * len(order)) for share in SHARES.values()])
    for role, part in zip(SHARES, np.split(order, ends)[:-1], strict=True):
        roles[part] = role
    return roles
