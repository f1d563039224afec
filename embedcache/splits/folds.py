"""Folds of cross-validation: every row is held out once in each repeat, and groups stay whole."""

import warnings

import numpy as np

from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.embedcache.storage.files import CacheError

MOST_ADVISED = 5
"""Folds that are advised where they are possible."""
MOST_FOLDS = 1000
"""Heads are fitted once for each fold; more folds than this are a mistake rather than a wish."""


def make_folds(labels: np.ndarray, groups: np.ndarray, spec: SplitSpec, stated: bool = True) -> np.ndarray:
    """The fold of each row in each repeat.

    Repeat r is the split of scikit-learn's StratifiedGroupKFold with seed + 1 + r; tables without stated groups are cut
    by StratifiedKFold over their distinct images. Where every group of a class with several came into one fold, one of
    them moves to another, so that each fold's training part knows the class. A class of one group cannot be known
    while it is held out.

    Args:
        labels: int [N] of the rows that are not kept for the test.
        groups: int [N], with groups that hold the same image taken as one.
        spec: with folds, or the rule leave_one_group_out.
        stated: whether the groups were stated; else only copies share one.

    Returns:
        Fold numbers from 0, int64 [repeats, N].

    Raises:
        CacheError: there are too few groups, or so many that leaving out each would not end.
    """
    if spec.rule == "leave_one_group_out":
        return _one_group_each(groups)[None]
    found, largest = _limits(labels, groups, stated)
    if min(found, largest) < spec.folds:
        raise CacheError(
            f"{spec.folds} folds need {spec.folds} groups and a class of as many rows beside the test rows, however: "
            f"{found} groups are left and the largest class has {largest}. {advice(labels, groups, spec.seed, stated)}"
        )
    folds = _repeated(labels, groups, spec, stated)
    fewest = min(len(np.unique(each)) for each in folds)
    if fewest < spec.folds:
        raise CacheError(
            f"each of {spec.folds} folds needs rows, however: only {fewest} got some, for few groups hold most rows. "
            f"{advice(labels, groups, spec.seed, stated)}"
        )
    return folds


def _repeated(labels: np.ndarray, groups: np.ndarray, spec: SplitSpec, stated: bool) -> np.ndarray:
    """The fold of each row in each repeat, [repeats, N]; some may have no rows."""
    seeds = [(spec.seed + 1 + repeat) % 2**32 for repeat in range(spec.repeats)]
    return np.stack([_spread(labels, groups, cut(labels, groups, spec.folds, seed, stated)) for seed in seeds])


def _limits(labels: np.ndarray, groups: np.ndarray, stated: bool) -> tuple[int, int]:
    """How many groups there are, and how many rows (distinct images without stated groups) the largest class has."""
    units = labels if stated else labels[np.unique(groups, return_index=True)[1]]
    return len(np.unique(groups)), int(np.unique(units, return_counts=True)[1].max(initial=0))


def advice(labels: np.ndarray, groups: np.ndarray, seed: int, stated: bool, before: str = "") -> str:
    """What to do where rows cannot be shared out as asked: the folds that these rows can be cut into.

    Some class has as many groups, so that it is both learnt and held out. The rows are cut to know it, for
    advice that fails in its turn sends people in a circle.

    Args:
        labels: int [N] of the rows that are not kept for the test.
        groups: int [N].
        seed: of the split.
        stated: whether the groups were stated.
        before: what is to be set beside the folds, such as "test=0 and ".
    """
    pairs = np.unique(np.stack([labels, groups]), axis=1)[0]
    apart = int(np.bincount(pairs).max(initial=0))
    for folds in range(min(MOST_ADVISED, apart, *_limits(labels, groups, stated)), 1, -1):
        found = _repeated(labels, groups, SplitSpec(folds=folds, seed=seed), stated)
        if len(np.unique(found)) == folds:
            return f"Cross-validate: set {before}folds={folds} of the split. Or state finer groups, or add images."
    return "No class has images of two groups, so nothing can be held out: state finer groups, or add images."


def cut(labels: np.ndarray, groups: np.ndarray, folds: int, seed: int, stated: bool) -> np.ndarray:
    """The fold of each row [N], by whole groups and evenly for each class.

    StratifiedGroupKFold holds a table of groups × classes and walks it in Python, which a million images without
    groups do not allow. There each distinct image is a unit, and StratifiedKFold gives the same shares at once.
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    first, group_of = np.unique(groups, return_index=True, return_inverse=True)[1:]
    units = np.arange(len(groups)) if stated else first
    splitter = (StratifiedGroupKFold if stated else StratifiedKFold)(folds, shuffle=True, random_state=seed)
    found = np.zeros(len(units), dtype=np.int64)
    with warnings.catch_warnings():
        # Classes smaller than the number of folds are listed in the report instead.
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        for fold, (_, held) in enumerate(splitter.split(units, labels[units], groups if stated else None)):
            found[held] = fold
    return found if stated else found[group_of]


def single_groups(labels: np.ndarray, groups: np.ndarray) -> list[int]:
    """Classes whose rows are all of one group: while it is held out nobody can learn them.

    >>> single_groups(np.array([0, 0, 1, 1]), np.array([0, 1, 2, 2]))
    [1]
    """
    return _fewer_groups(labels, groups, 2)


def small_classes(labels: np.ndarray, groups: np.ndarray, folds: int) -> list[int]:
    """Classes with too few groups to have one in every fold."""
    return _fewer_groups(labels, groups, folds)


def unlearnt(labels: np.ndarray, groups: np.ndarray, folds: np.ndarray) -> list[int]:
    """Classes of several groups that all lie in one fold [N], so that its training part does not know them."""
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
            f"leaving out one group at a time needs 2 to {MOST_FOLDS} groups, however: {count} are left beside the "
            "test rows. State coarser groups, or give folds instead."
        )
    return np.asarray(found, dtype=np.int64)


def _spread(labels: np.ndarray, groups: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """The folds [N] with single groups moved, so that as few classes of several groups as may be lie in one fold.

    Each move leaves fewer of them; where none does, as can be where groups hold several classes, they stay.
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
    """Classes that a fold does not know, then how uneven the folds are."""
    sizes = np.bincount(folds)
    return len(unlearnt(labels, groups, folds)), int((sizes**2).sum())
