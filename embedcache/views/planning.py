"""Which views there will be: of which images, with which partners, drawn before the first is made."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from frostbench.embedcache.table import FeatureTable
from frostbench.embedcache.views.policy import Policy
from frostbench.embedcache.views.single import Crops, Flip
from frostbench.embedcache.views.transplant import Transplant

Role = Literal["train", "eval"]
"""Whose views: training rows, to train on; or rows that select, calibrate and test, to average over."""


@dataclass(frozen=True)
class PlannedView:
    """A view that is to be made.

    Attributes:
        id: its own, unique.
        row: of its image in the table.
        number: among the views of that image, from 0.
        partner: row of the other image; None where one suffices.
        seed: of its random numbers.
    """

    id: str
    row: int
    number: int
    partner: int | None
    seed: int


def plan(
    table: FeatureTable, roles: np.ndarray, policy: Policy, count: int, seed: int, role: Role
) -> list[PlannedView]:
    """The views of a policy, ordered by image and number.

    A view depends on its image's id, its number and the seed alone, and its partner on the training rows; so more views
    leave the first ones as they are.

    Args:
        table: the cache's rows.
        roles: what the split makes of each, [N].
        policy: how views are made.
        count: views of each image; a policy that draws nothing has a number of its own.
        seed: of all random numbers.
        role: training rows, or all others.

    Raises:
        ValueError: the policy has fewer views, mixes labels of rows that are judged, or finds no images.
    """
    _check(policy, count, role)
    rows = np.flatnonzero(roles == "train") if role == "train" else np.flatnonzero(np.isin(roles, _JUDGED))
    partners = rows
    if isinstance(policy, Transplant):
        rows, partners = _rare_and_frequent(table, rows, policy.rare_below)
    if len(rows) == 0:
        raise ValueError(f"views need images, however: the split has no rows of role {role}. Choose another.")
    planned = []
    for row in rows.tolist():
        for number in range(count):
            name = f"{table.ids[row]}#{policy.model_dump()['kind']}-{number}"
            own = seed_of(seed, str(table.ids[row]), number)
            partner = _partner(row, partners, own) if policy.needs_partner else None
            planned.append(PlannedView(name, row, number, partner, own))
    return planned


_JUDGED = ("select", "calibrate", "test")


def _check(policy: Policy, count: int, role: Role) -> None:
    if role == "eval" and policy.needs_partner:
        raise ValueError(
            f"views that predictions are averaged over show one image, however: {policy.text} mixes two. Use flip, "
            "crops or another policy of single images."
        )
    most = policy.views if isinstance(policy, Flip | Crops) else 1000
    if not 1 <= count <= most:
        able = "one view" if most == 1 else f"1..{most} views"
        raise ValueError(f"{policy.text} makes {able} of an image, however: count {count} came. Choose as many.")


def _rare_and_frequent(table: FeatureTable, rows: np.ndarray, rare_below: int) -> tuple[np.ndarray, np.ndarray]:
    """Training rows of rare classes, and of all others.

    Raises:
        ValueError: there are none of one kind.
    """
    counts = np.bincount(table.labels[rows], minlength=len(table.class_names))
    is_rare = counts[table.labels[rows]] < rare_below
    if is_rare.all() or not is_rare.any():
        rare = int(((counts > 0) & (counts < rare_below)).sum())
        raise ValueError(
            f"patches move from rare classes to frequent ones, however: {rare} "
            f"of {int((counts > 0).sum())} classes have fewer than {rare_below} training images. Set rare_below so "
            "that there are both."
        )
    return rows[is_rare], rows[~is_rare]


def _partner(row: int, partners: np.ndarray, seed: int) -> int:
    """Another row, all alike likely.

    Raises:
        ValueError: there is none.
    """
    others = partners[partners != row] if len(partners) < 3 else partners
    if len(others) == 0:
        raise ValueError("a view of two images needs a second one, however: there is one training row. Add images.")
    rng = np.random.default_rng([seed, 1])
    while True:
        found = int(others[rng.integers(len(others))])
        if found != row:
            return found


def seed_of(seed: int, name: str, number: int) -> int:
    """A number below 2^63 that belongs to a view.

    >>> seed_of(0, "a.jpg", 0) == seed_of(0, "a.jpg", 1)
    False
    """
    digest = hashlib.sha256(f"{seed} {number} {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def labels_of(planned: Sequence[PlannedView], table: FeatureTable, is_shared: bool) -> list[str | None]:
    """The class of each view's partner where its label is shared with it; None elsewhere."""
    if not is_shared:
        return [None] * len(planned)
    return [None if p.partner is None else table.class_names[table.labels[p.partner]] for p in planned]
