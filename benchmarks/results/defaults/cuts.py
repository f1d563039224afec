"""Which rows train, select, calibrate and test, by draw."""

import numpy as np
import numpy.typing as npt

from frostbench.benchmarks.results.tables import Table

Roles = npt.NDArray[np.str_]
SHARES = {"select": 0.15, "calibrate": 0.1, "test": 0.15}
"""Of each class, or of the groups where rows have some; the others train."""
FEW = {"train": 120, "select": 60, "calibrate": 60}
"""Rows of a small table; the others test."""


def cut(table: Table, draw: int) -> Roles:
    """The role [N] of each row: whole groups in these shares, or class by class where there are none."""
    rng = np.random.default_rng(draw)
    if table.groups is not None:
        names, each = np.unique(table.groups, return_inverse=True)
        return _parted(rng.permutation(len(names)))[each]
    roles = np.full(len(table.labels), "train", dtype="<U9")
    for label in np.unique(table.labels):
        rows = np.flatnonzero(table.labels == label)
        roles[rows] = _parted(rng.permutation(len(rows)))
    return roles


def few(table: Table, draw: int) -> Roles:
    """Roles [N] of so many rows as `FEW` says, drawn from all; groups are not kept together."""
    order = np.random.default_rng(draw).permutation(len(table.labels))
    roles = np.full(len(order), "test", dtype="<U9")
    for role, part in zip(FEW, np.split(order, np.cumsum(list(FEW.values())))[:-1], strict=True):
        roles[part] = role
    return roles


def _parted(order: npt.NDArray[np.int64]) -> Roles:
    """Roles of things in these shares, by an order [n] of them."""
    roles = np.full(len(order), "train", dtype="<U9")
    ends = np.cumsum([round(share * len(order)) for share in SHARES.values()])
    for role, part in zip(SHARES, np.split(order, ends)[:-1], strict=True):
        roles[part] = role
    return roles
