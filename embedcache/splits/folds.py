"""Cross-validation folds: every row is held out once per repeat, and groups are not divided."""

import warnings

import numpy as np

from frostbench.embedcache.counting import things
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.embedcache.storage.files import CacheError

MOST_ADVISED = 5
"""Maximum number of folds in advice."""
MOST_FOLDS = 1000
"""Maximum number of folds; every fold costs one fit."""


def make_folds(labels: np.ndarray, groups: np.ndarray, spec: SplitSpec, stated: bool = True) -> np.ndarray:
    """Assign each row to a fold in each repeat.

    Repeat r uses scikit-learn's StratifiedGroupKFold with seed + 1 + r; tables without given groups use StratifiedKFold
    over their distinct images. If all groups of a class fall into one fold, one of them is moved if possible, so that
    every training part contains the class. A class with a single group cannot be learned while it is held out.

    Args:
        labels: int [N] of the rows outside the test set.
        groups: int [N]; groups that share an image are merged.
        spec: split settings with folds, or the rule leave_one_group_out.
        stated: whether groups were given; otherwise only duplicates share a group.

    Returns:
        Fold numbers from 0, int64 [repeats, N].

    Raises:
        CacheError: there are too few groups, or too many to leave each out.
    """
    if spec.rule == "leave_one_group_out":
        return _one_group_each(groups)[None]
    found, largest = _limits(labels, groups, stated)
    if min(found, largest) < spec.folds:
        raise CacheError(
            f"{spec.folds} folds need {spec.folds} groups and a class with as many rows outside the test set, but "
            f"{things(found, 'group is', 'groups are')} left and the largest class has {largest}. "
            f"{advice(labels, groups, spec.seed, stated)}"
        )
    folds = _repeated(labels, groups, spec, stated)
    fewest = min(len(np.unique(each)) for each in folds)
    if fewest < spec.folds:
        raise CacheError(
            f"Each of {spec.folds} folds needs rows, but only {fewest} got some, because few groups hold most rows. "
            f"{advice(labels, groups, spec.seed, stated)}"
        )
    return folds


def _repeated(labels: np.ndarray, groups: np.ndarray, spec: SplitSpec, stated: bool) -> np.ndarray:
    """Assign each row to a fold in each repeat, [repeats, N]; folds may be empty."""
    seeds = [(spec.seed + 1 + repeat) % 2**32 for repeat in range(spec.repeats)]
    return np.stack([_spread(labels, groups, cut(labels, groups, spec.folds, seed, stated)) for seed in seeds])


def _limits(labels: np.ndarray, groups: np.ndarray, stated: bool) -> tuple[int, int]:
    """Return the number of groups, and the rows (distinct images if no groups were given) of the largest class."""
    units = labels if stated else labels[np.unique(groups, return_index=True)[1]]
    return len(np.unique(groups)), int(np.unique(units, return_counts=True)[1].max(initial=0))


def advice(labels: np.ndarray, groups: np.ndarray, seed: int, stated: bool, before: str = "") -> str:
    """Return advice for rows that cannot be split as requested: a number of folds that is possible.

    The folds are actually made, so that the advice does not fail in turn.

    Args:
        labels: int [N] of the rows outside the test set.
        groups: int [N].
        seed: seed of the split.
        stated: whether groups were given.
        before: other settings needed, such as "test=0 and ".
    """
    pairs = np.unique(np.stack([labels, groups]), axis=1)[0]
    apart = int(np.bincount(pairs).max(initial=0))
    for folds in range(min(MOST_ADVISED, apart, *_limits(labels, groups, stated)), 1, -1):
        found = _repeated(labels, groups, SplitSpec(folds=folds, seed=seed), stated)
        if len(np.unique(found)) == folds:
            return f"Cross-validate: set {before}folds={folds} of the split. Or state finer groups, or add images."
    return "No class has images from two groups, so nothing can be held out. State finer groups, or add images."


def cut(labels: np.ndarray, groups: np.ndarray, folds: int, seed: int, stated: bool) -> np.ndarray:
    """Assign rows to folds [N], without dividing groups and evenly within each class.

    StratifiedGroupKFold loops in Python over a table of groups × classes, which is too slow for a million images
    without groups. Distinct images without groups are therefore divided by StratifiedKFold, with the same shares.
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    first, group_of = np.unique(groups, return_index=True, return_inverse=True)[1:]
    units = np.arange(len(groups)) if stated else first
    splitter = (StratifiedGroupKFold if stated else StratifiedKFold)(folds, shuffle=True, random_state=seed)
    found = np.zeros(len(units), dtype=np.int64)
    with warnings.catch_warnings():
        # The report lists classes smaller than the number of folds instead.
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        for fold, (_, held) in enumerate(splitter.split(units, labels[units], groups if stated else None)):
            found[held] = fold
    return found if stated else found[group_of]


def single_groups(labels: np.ndarray, groups: np.ndarray) -> list[int]:
    """Return the classes with a single group, which cannot be learned while it is held out.

    >>> single_groups(np.array([0, 0, 1, 1]), np.array([0, 1, 2, 2]))
    [1]
    """
    return _fewer_groups(labels, groups, 2)


def small_classes(labels: np.ndarray, groups: np.ndarray, folds: int) -> list[int]:
    """Return the classes with too few groups to have one in every fold."""
    return _fewer_groups(labels, groups, folds)


def unlearnt(labels: np.ndarray, groups: np.ndarray, folds: np.ndarray) -> list[int]:
    """Return the classes with several groups that are all in one fold, so that its training part lacks the class."""
    there, where = np.unique(np.stack([labels, folds]), axis=1)[0], np.unique(np.stack([labels, groups]), axis=1)[0]
    of_folds, of_groups = (np.bincount(each, minlength=labels.max(initial=0) + 1) for each in (there, where))
    return np.flatnonzero((of_folds == 1) & (of_groups > 1)).tolist()


def _fewer_groups(labels: np.ndarray, groups: np.ndarray, least: int) -> list[int]:
    classes, counts = np.unique(np.unique(np.stack([labels, groups]), axis=1)[0], return_counts=True)
    return [int(label) for label in classes[counts < least]]


def _one_group_each(groups: np.ndarray) -> np.ndarray:
    found = np.unique(groups, return_inverse=True)[1]
    count = int(found.max(initial=-1)) + 1
    if not 2 <= count <= MOST_FOLDS:
        raise CacheError(
            f"leave_one_group_out needs 2 to {MOST_FOLDS} groups outside the test set, got {count}. "
            "State other groups, or set folds instead."
        )
    return np.asarray(found, dtype=np.int64)


def _spread(labels: np.ndarray, groups: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """Move single groups to other folds, to minimise the number of classes whose groups are all in one fold.

    Only moves that reduce this number are made; with groups of several classes there may be none.
    """
    folds, count = folds.copy(), int(folds.max(initial=0)) + 1
    while lost := unlearnt(labels, groups, folds):
        mine = labels == lost[0]
        candidates = [(group, fold) for group in np.unique(groups[mine]) for fold in range(count)]
        moved = [np.where(groups == group, fold, folds) for group, fold in candidates if fold != folds[mine][0]]
        best = min(moved, key=lambda each: _badness(labels, groups, each))
        if len(unlearnt(labels, groups, best)) >= len(lost):
            break
        folds = best
    return folds


def _badness(labels: np.ndarray, groups: np.ndarray, folds: np.ndarray) -> tuple[int, int]:
    """Return the number of classes that some training part lacks, and the sum of squared fold sizes."""
    sizes = np.bincount(folds)
    return len(unlearnt(labels, groups, folds)), int((sizes**2).sum())
