"""Dividing rows into roles without dividing groups; the algorithm behind `frostbench.embedcache.splits.making`."""

from collections.abc import Mapping, Sequence

import numpy as np

from frostbench.embedcache.counting import things
from frostbench.embedcache.splits.folds import advice, cut
from frostbench.embedcache.storage.files import CacheError


def merge_groups(groups: np.ndarray, content: np.ndarray) -> np.ndarray:
    """Number the groups, merging groups that share a byte-identical image.

    >>> merge_groups(np.array(["a", "b", "c", "c"]), np.array(["1", "1", "2", "3"])).tolist()
    [0, 0, 1, 1]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    by_group = np.unique(groups, return_inverse=True)[1]
    by_content = np.unique(content, return_inverse=True)[1]
    size = by_group.max(initial=-1) + 1
    nodes = size + by_content.max(initial=-1) + 1
    edges = coo_array((np.ones(len(groups)), (by_group, size + by_content)), shape=(nodes, nodes))
    component = connected_components(edges, directed=False)[1][by_group]
    return np.asarray(np.unique(component, return_inverse=True)[1], dtype=np.int64)


def cut_roles(
    labels: np.ndarray,
    groups: np.ndarray,
    roles: np.ndarray,
    shares: Mapping[str, float],
    seed: int,
    stated: bool,
) -> tuple[np.ndarray, set[int]]:
    """Assign training rows to each role that has no rows yet, by its share.

    Args:
        labels: int [N].
        groups: int [N]; groups are not divided.
        roles: str [N]; "train" for rows that may be assigned to another role.
        shares: share of all N rows by role, in the order in which they are taken; 0 takes nothing.
        seed: seed of the first share; each further share uses the next number.
        stated: whether groups were given; otherwise only duplicates share a group, and distinct images are divided.

    Returns:
        The roles, and the classes with fewer rows than folds, of which a share takes one in about 1 / share.

    Raises:
        CacheError: there are too few groups for a share.
    """
    roles = roles.copy()
    small: set[int] = set()
    given = set(roles)
    for step, (role, share) in enumerate(shares.items()):
        if share == 0 or role in given:
            continue
        rest = np.flatnonzero(roles == "train")
        folds = round(len(rest) / (share * len(roles)))
        units = rest if stated else rest[np.unique(groups[rest], return_index=True)[1]]
        if why := _impossible(folds, labels[units], groups[units]):
            pool = roles != "test"
            beside = "test=0 and " if role == "test" else ""
            remedy = advice(labels[pool], groups[pool], seed, stated, beside)
            raise CacheError(f"a share of {share} for {role!r} {why} {remedy}")
        classes, counts = np.unique(labels[units], return_counts=True)
        small |= set(classes[counts < folds].tolist())
        held = np.flatnonzero(cut(labels[units], groups[units], folds, seed + step, stated) == 0)
        roles[np.isin(groups, groups[units][held]) & (roles == "train")] = role
    return roles, small


def _impossible(folds: int, labels: np.ndarray, groups: np.ndarray) -> str:
    """Return why rows cannot be divided into this many folds; empty if they can."""
    found = len(np.unique(groups))
    largest = np.unique(labels, return_counts=True)[1].max(initial=0)
    if folds >= 2 and found >= folds and largest >= folds:
        return ""
    return (
        f"needs {max(folds, 2)} groups and a class with as many rows, but "
        f"{things(found, 'group is', 'groups are')} left and the largest class has {largest}."
    )


def keep_classes_in_train(
    labels: np.ndarray, groups: np.ndarray, roles: np.ndarray, movable: Sequence[str]
) -> tuple[np.ndarray, list[int]]:
    """Move one group of each class without training rows to training: from calibration, else validation, else test.

    Args:
        labels: int [N].
        groups: int [N].
        roles: str [N].
        movable: roles that may give a group back.

    Returns:
        The roles, and the classes that got training rows.
    """
    roles = roles.copy()
    forced = []
    for label in np.setdiff1d(labels, labels[roles == "train"]):
        mine = labels == label
        if (roles[mine] == "train").any():
            continue
        for role in ("calibrate", "select", "test"):
            rows = np.flatnonzero(mine & (roles == role))
            if role in movable and len(rows):
                names, counts = np.unique(groups[rows], return_counts=True)
                roles[groups == names[np.argmax(counts)]] = "train"
                forced.append(int(label))
                break
    return roles, forced
