"""Reports of splits and of cross-validation folds: counts, and notes for the user."""

import numpy as np

from frostbench.embedcache.counting import things
from frostbench.embedcache.splits.files import SplitReport
from frostbench.embedcache.splits.folds import make_folds, single_groups, small_classes, unlearnt
from frostbench.embedcache.splits.role_names import ROLES
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.embedcache.table import FeatureTable

SPLITS = {"given": "The given split", "time": "The split by time", "grouped_stratified": "The split from the file"}
"""Names, by source, of the splits that notes refer to."""


def split_report(
    table: FeatureTable,
    spec: SplitSpec,
    labels: np.ndarray,
    groups: np.ndarray,
    roles: np.ndarray,
    noted: tuple[list[int], list[int]],
    cut_notes: list[str],
) -> SplitReport:
    """Count the rows, groups and missing classes of each role, with notes."""
    names = np.array(table.class_names)
    there = set(labels.tolist())
    used = [role for role in ROLES if (roles == role).any()]
    missing = {role: sorted(there - set(labels[roles == role].tolist())) for role in used}
    notes = []
    if not table.has_groups and spec.duplicates is None:
        notes.append("No groups are given: images of the same object may be in both train and test. State groups.")
    per_group = np.unique(np.stack([groups, np.unique(roles, return_inverse=True)[1]]), axis=1).shape[1]
    straddling = per_group - len(np.unique(groups))
    if straddling:
        sets = things(straddling, "group or set", "groups or sets")
        notes.append(f"{SPLITS[spec.source]} divides {sets} of identical images between roles.")
    if missing["train"]:
        lost = things(len(missing["train"]), "class", "classes")
        notes.append(f"{SPLITS[spec.source]} leaves {lost} without a training row.")
    return SplitReport(
        counts={role: int((roles == role).sum()) for role in ROLES},
        groups={role: len(np.unique(groups[roles == role])) for role in ROLES},
        missing={role: tuple(names[missing[role]].tolist()) for role in used},
        forced=tuple(names[noted[0]].tolist()),
        small=tuple(names[noted[1]].tolist()),
        warnings=(*notes, *cut_notes),
    )


def cross_validate_rows(
    table: FeatureTable, labels: np.ndarray, groups: np.ndarray, roles: np.ndarray, spec: SplitSpec, report: SplitReport
) -> tuple[np.ndarray, SplitReport]:
    """Return the folds [repeats, N] of the rows outside the test set, and the report."""
    pool = roles == "train"
    own, units = labels[pool], groups[pool]
    found = make_folds(own, units, spec, table.has_groups)
    folds = np.full((len(found), len(roles)), -1, dtype=np.int64)
    folds[:, pool] = found
    count, names = int(found.max()) + 1, np.array(table.class_names)
    times = f", {spec.repeats} repeats" if spec.repeats > 1 else ""
    notes = [f"Cross-validated, {count} folds{times}: validation metrics are computed on out-of-fold predictions."]
    single = names[single_groups(own, units)].tolist()
    if single:
        notes.append(
            f"{things(len(single), 'class has', 'classes have')} one group and cannot be learned while it is held out, "
            f"so its rows count as errors: {', '.join(single[:10])}{' …' if len(single) > 10 else '.'}"
        )
    apart = sorted({label for each in found for label in unlearnt(own, units, each)})
    if apart:
        notes.append(f"All groups of these classes are in one fold: {', '.join(names[apart][:10].tolist())}.")
    small = {*report.small, *(names[small_classes(own, units, spec.folds)].tolist())}
    ordered = tuple(name for name in names.tolist() if name in small)
    return folds, report.model_copy(update={"warnings": (*report.warnings, *notes), "small": ordered})
