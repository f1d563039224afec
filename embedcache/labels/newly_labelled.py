"""Images without a label in the cache that corrections give one: rows of the table, and training rows of the split."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from frostbench.embedcache.counting import things
from frostbench.embedcache.labels.corrections import Correction, rulings
from frostbench.embedcache.splits.cuts import merge_groups
from frostbench.embedcache.splits.making import Split, hash_roles
from frostbench.embedcache.splits.near_copies import near_in_cache, with_near_copies
from frostbench.embedcache.splits.role_names import role_called
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.embedcache.splits.thinning import UNUSED
from frostbench.embedcache.table import FeatureTable, read_table, rows_where

Roles = npt.NDArray[np.str_]


def with_newly_labelled(
    table: FeatureTable, split: Split, spec: SplitSpec, corrections: Sequence[Correction]
) -> tuple[FeatureTable, Split]:
    """Add the rows without a label that corrections give one; their label is still -1, until they are relabelled.

    They become training rows, since images that were chosen to be labelled are no random sample to evaluate on. Those
    that belong with held-out rows (by group, equal bytes, or as near-duplicates if the split keeps these together), or
    to which the listing gives another role in a split that follows it, are not used. All other rows keep their role and
    fold.

    Args:
        table: the labelled rows of a cache.
        split: its split.
        spec: settings of the split.
        corrections: lines of a file of corrections.
    """
    named = {image for image, ruling in rulings(corrections).items() if ruling.new} - {*table.ids.tolist()}
    if not named or table.folder is None:
        return table, split
    whole = read_table(table.folder, sorted(table.recipes), stored=bool(table.stored), unlabelled=True)
    kept = (whole.labels >= 0) | np.isin(whole.ids, sorted(named))
    found = rows_where(whole, kept)
    if len(found.ids) == len(table.ids):
        return table, split
    return found, _extended(split, found, spec, _units(whole, spec)[kept])


def _units(whole: FeatureTable, spec: SplitSpec) -> npt.NDArray[np.int64]:
    """Return the number of the rows that a split keeps together with each row of a cache, [N]."""
    units = merge_groups(whole.groups, whole.content)
    if spec.duplicates is None or whole.folder is None:
        return units
    return with_near_copies(units, near_in_cache(whole.folder, whole, spec.duplicates), spec.duplicates)[0]


def _extended(split: Split, table: FeatureTable, spec: SplitSpec, units: npt.NDArray[np.int64]) -> Split:
    new = table.labels < 0
    roles = np.full(len(new), "train", dtype="<U9")
    roles[~new] = split.roles
    held = np.isin(units, units[~new & ~np.isin(roles, ("train", UNUSED))])
    roles[new & (held | _stated_otherwise(table, spec))] = UNUSED
    folds = None if split.folds is None else np.stack([_folds(one, units, new, roles) for one in split.folds])
    used, left = (int((new & (roles == role)).sum()) for role in ("train", UNUSED))
    note = f"Newly labelled: {things(used, 'training row', 'training rows')}"
    note += f", and {left} not used, because they belong with held-out images." if left else "."
    report = split.report.model_copy(update={"warnings": (*split.report.warnings, note)})
    return Split(roles, hash_roles(table.ids, roles, folds), report, folds)


def _stated_otherwise(table: FeatureTable, spec: SplitSpec) -> npt.NDArray[np.bool_]:
    """Return whether the listing gives each row another role than training, in a split that follows it."""
    if spec.source != "given" or table.split is None:
        return np.zeros(len(table.ids), dtype=np.bool_)
    return np.array([bool(role) and role_called(role) != "train" for role in table.split.tolist()], dtype=np.bool_)


def _folds(
    folds: npt.NDArray[np.int64], units: npt.NDArray[np.int64], new: npt.NDArray[np.bool_], roles: Roles
) -> npt.NDArray[np.int64]:
    """Return the fold of each row [N]: that of the rows it is kept with, or else in turn; -1 outside training."""
    of_unit = dict(zip(units[~new].tolist(), folds.tolist(), strict=True))
    others = sorted({*units[new].tolist()} - of_unit.keys())
    of_unit |= {unit: place % (int(folds.max()) + 1) for place, unit in enumerate(others)}
    found = np.array([of_unit[unit] for unit in units.tolist()], dtype=folds.dtype)
    found[~new] = folds
    found[new & (roles != "train")] = -1
    return found
