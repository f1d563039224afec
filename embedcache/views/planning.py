"""Planning of views: their images, partners and seeds, drawn before the first view is made."""

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
"""Rows with views: training rows, to train on; or validation, calibration and test rows, to average predictions."""


@dataclass(frozen=True)
class PlannedView:
    """View that is to be made.

    Attributes:
        id: unique id of the view.
        row: row of its image in the table.
        number: index among the views of that image.
        partner: row of the other image; None if the policy uses one image.
        seed: seed of its random numbers.
    """

    id: str
    row: int
    number: int
    partner: int | None
    seed: int


def plan(
    table: FeatureTable, roles: np.ndarray, policy: Policy, count: int, seed: int, role: Role
) -> list[PlannedView]:
    """Plan the views of a policy, ordered by image and number.

    A view depends only on its image's id, its number and the seed, and its partner also on the training rows, so a
    higher count does not change the first views.

    Args:
        table: rows of the cache.
        roles: role of each row in the split, [N].
        policy: policy that makes the views.
        count: number of views of each image; a policy without randomness has a maximum.
        seed: seed of all random numbers.
        role: train for training rows, eval for all others.

    Raises:
        ValueError: the policy has fewer views, it mixes images although the role is eval, or there are no images.
    """
    _check(policy, count, role)
    rows = np.flatnonzero(roles == "train") if role == "train" else np.flatnonzero(np.isin(roles, _EVALUATED))
    partners = rows
    if isinstance(policy, Transplant):
        rows, partners = _rare_and_frequent(table, rows, policy.rare_below)
    if len(rows) == 0:
        raise ValueError(f"views require images, but the split has no rows for role {role}. Choose another role.")
    planned = []
    for row in rows.tolist():
        for number in range(count):
            name = f"{table.ids[row]}#{policy.model_dump()['kind']}-{number}"
            view_seed = seed_of(seed, str(table.ids[row]), number)
            partner = _partner(row, partners, view_seed) if policy.needs_partner else None
            planned.append(PlannedView(name, row, number, partner, view_seed))
    return planned


_EVALUATED = ("select", "calibrate", "test")


def _check(policy: Policy, count: int, role: Role) -> None:
    if role == "eval" and policy.needs_partner:
        raise ValueError(
            f"views for averaging predictions must show one image, but {policy.text} mixes two. Use flip, crops or "
            "another policy for single images."
        )
    most = policy.views if isinstance(policy, Flip | Crops) else 1000
    if not 1 <= count <= most:
        raise ValueError(f"the number of views of {policy.text} must be in 1..{most}, got {count}. Change count.")


def _rare_and_frequent(table: FeatureTable, rows: np.ndarray, rare_below: int) -> tuple[np.ndarray, np.ndarray]:
    """Return training rows of rare and of frequent classes; raise ValueError unless there are both."""
    counts = np.bincount(table.labels[rows], minlength=len(table.class_names))
    is_rare = counts[table.labels[rows]] < rare_below
    if is_rare.all() or not is_rare.any():
        rare, classes = int(((counts > 0) & (counts < rare_below)).sum()), int((counts > 0).sum())
        raise ValueError(
            f"transplant requires rare and frequent classes, but {rare} of {classes} classes "
            f"{'has' if rare == 1 else 'have'} fewer than {rare_below} training images. Set rare_below so that both "
            "exist."
        )
    return rows[is_rare], rows[~is_rare]


def _partner(row: int, partners: np.ndarray, seed: int) -> int:
    """Draw another row uniformly; raise ValueError if there is no other row."""
    others = partners[partners != row] if len(partners) < 3 else partners
    if len(others) == 0:
        raise ValueError("a view of two images requires a second image, but there is only one. Add training images.")
    rng = np.random.default_rng([seed, 1])
    while True:
        partner = int(others[rng.integers(len(others))])
        if partner != row:
            return partner


def seed_of(seed: int, name: str, number: int) -> int:
    """Derive the seed of a view, below 2^63.

    >>> seed_of(0, "a.jpg", 0) == seed_of(0, "a.jpg", 1)
    False
    """
    digest = hashlib.sha256(f"{seed} {number} {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def labels_of(planned: Sequence[PlannedView], table: FeatureTable, is_shared: bool) -> list[str | None]:
    """Return the class of each view's partner if labels are shared, otherwise None."""
    if not is_shared:
        return [None] * len(planned)
    return [None if p.partner is None else table.class_names[table.labels[p.partner]] for p in planned]
