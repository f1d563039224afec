"""Which rows train, select, calibrate and test; made once, kept beside the cache, and loaded ever after."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from embedcache.cuts import cut_roles, keep_classes_in_train, merge_groups
from embedcache.files import CacheError, write_parquet
from embedcache.folds import make_folds, single_groups, small_classes, unlearnt
from embedcache.split_files import SPLIT_KEY
from embedcache.split_files import SplitReport as SplitReport
from embedcache.split_files import hash_roles as hash_roles
from embedcache.split_files import read_split as read_split
from embedcache.split_spec import SplitSpec as SplitSpec
from embedcache.table import FeatureTable

ROLES = ("train", "select", "calibrate", "test")
GIVEN_NAMES = {
    "train": ("train", "training"),
    "select": ("val", "valid", "validation", "dev", "select"),
    "calibrate": ("calibrate", "calibration"),
    "test": ("test", "testing"),
}


@dataclass(frozen=True, eq=False)
class Split:
    """The role of each row of a table, with its hash and its report.

    Attributes:
        roles: str [N], in table order.
        hash: of ids, roles and folds.
        report: what a reader must know of it.
        folds: of a cross-validated split, int64 [repeats, N]: the fold in which each row is held out, -1 for those of
            test; all other rows have the role train. None where there is no cross-validation.
    """

    roles: np.ndarray
    hash: str
    report: SplitReport
    folds: np.ndarray | None = None


def make_split(table: FeatureTable, spec: SplitSpec) -> Split:
    """Share out the rows of a table; the outcome does not depend on their order.

    Test is fold 0 of scikit-learn's StratifiedGroupKFold with round(1 / share) folds; selection and calibration are
    cut in the same way from what is left. Groups that hold the same image count as one group. A table without stated
    groups is cut by StratifiedKFold over its distinct images. A class of which every group was cut away gets a whole
    group back.

    With source "given" the listing names train and test (and selection, where it names validation rows, and
    calibration); only the roles that it does not name are cut, from its training rows. With cross-validation all rows
    that are not of test are training rows, also those which the listing names otherwise, and `make_folds` says which
    fold holds each of them out.

    Raises:
        CacheError: the table is empty, there are too few groups for a share or for the folds, or the given split is
            missing, partial or has unknown names.
    """
    if len(table.ids) == 0:
        raise CacheError(
            "a split needs rows, however: this table has none. If every image went to the quarantine, its reasons say "
            "what to mend; then embed again."
        )
    order = np.argsort(table.ids, kind="stable")
    labels = table.labels[order]
    groups = merge_groups(table.groups[order], table.content[order])
    start = _start(table, spec)[order]
    shares = spec.shares
    roles, small = cut_roles(labels, groups, start, shares, spec.seed, table.has_groups)
    movable = [role for role in ROLES if role not in set(start)]
    roles, forced = keep_classes_in_train(labels, groups, roles, movable)
    _check_filled([role for role in movable if shares[role]], roles)
    report = _report(table, labels, groups, roles, (forced, sorted(small)))
    back = np.argsort(order)
    if not spec.is_cross_validated:
        return _finish(table.ids, roles[back], None, report)
    folds, report = _cross_validated(table, labels, groups, roles, spec, report)
    return _finish(table.ids, roles[back], folds[:, back], report)


def _check_filled(wanted: list[str], roles: np.ndarray) -> None:
    """Refuse a split in which a role that was asked for has no row."""
    empty = [role for role in wanted if not (roles == role).any()]
    if empty:
        raise CacheError(
            f"each share above 0 needs rows, however: {empty} got none. State finer groups, or set it to 0."
        )


def _cross_validated(
    table: FeatureTable, labels: np.ndarray, groups: np.ndarray, roles: np.ndarray, spec: SplitSpec, report: SplitReport
) -> tuple[np.ndarray, SplitReport]:
    """The folds [repeats, N] of the rows that are not of test, and the report with what is to be said of them."""
    pool = roles != "test"
    own, units = labels[pool], groups[pool]
    found = make_folds(own, units, spec, table.has_groups)
    folds = np.full((len(found), len(roles)), -1, dtype=np.int64)
    folds[:, pool] = found
    count, names = int(found.max()) + 1, np.array(table.class_names)
    times = f", cut anew {spec.repeats} times" if spec.repeats > 1 else ""
    notes = [f"Cross-validated, {count} folds{times}: rows called select were predicted by heads that never saw them."]
    single = names[single_groups(own, units)].tolist()
    if single:
        notes.append(
            f"{len(single)} classes have one group, so nothing is left to learn them from while it is held out, and "
            f"its rows count as errors: {', '.join(single[:10])}{' …' if len(single) > 10 else '.'}"
        )
    apart = sorted({label for each in found for label in unlearnt(own, units, each)})
    if apart:
        notes.append(f"All groups of these classes had to stay in one fold: {', '.join(names[apart][:10].tolist())}.")
    small = {*report.small, *(names[small_classes(own, units, spec.folds)].tolist())}
    ordered = tuple(name for name in names.tolist() if name in small)
    return folds, report.model_copy(update={"warnings": (*report.warnings, *notes), "small": ordered})


def _finish(ids: np.ndarray, roles: np.ndarray, folds: np.ndarray | None, report: SplitReport) -> Split:
    for array in (roles,) if folds is None else (roles, folds):
        array.flags.writeable = False
    return Split(roles, hash_roles(ids, roles, folds), report, folds)


def _start(table: FeatureTable, spec: SplitSpec) -> np.ndarray:
    """The role of each row before anything is cut."""
    if spec.source == "grouped_stratified":
        return np.full(len(table.ids), "train", dtype="<U9")
    if table.split is None:
        raise CacheError(
            "a given split needs a split column in the manifest, however: this cache was made without one. "
            "Use source grouped_stratified, or embed from a manifest with that column."
        )
    role_of = {name: role for role, names in GIVEN_NAMES.items() for name in names}
    unknown = sorted({str(name) for name in table.split if name.strip().lower() not in role_of})
    if unknown or "train" not in {role_of[name.strip().lower()] for name in table.split}:
        raise CacheError(
            f"a given split must name each row one of {sorted(role_of)}, and some train, however: {unknown[:5]} came. "
            "Correct the split column of the manifest."
        )
    roles = np.array([role_of[name.strip().lower()] for name in table.split], dtype="<U9")
    return np.where(roles == "test", roles, "train") if spec.is_cross_validated else roles


def _report(
    table: FeatureTable,
    labels: np.ndarray,
    groups: np.ndarray,
    roles: np.ndarray,
    noted: tuple[list[int], list[int]],
) -> SplitReport:
    names = np.array(table.class_names)
    there = set(labels.tolist())
    used = [role for role in ROLES if (roles == role).any()]
    missing = {role: sorted(there - set(labels[roles == role].tolist())) for role in used}
    notes = []
    if not table.has_groups:
        notes.append("No groups are stated: near-copies of one object may be in train and in test. State groups.")
    per_group = np.unique(np.stack([groups, np.unique(roles, return_inverse=True)[1]]), axis=1).shape[1]
    straddling = per_group - len(np.unique(groups))
    if straddling:
        notes.append(f"The given split puts {straddling} groups or identical images into more than one role.")
    if missing["train"]:
        notes.append(f"The given split leaves {len(missing['train'])} classes without a training row.")
    return SplitReport(
        counts={role: int((roles == role).sum()) for role in ROLES},
        groups={role: len(np.unique(groups[roles == role])) for role in ROLES},
        missing={role: tuple(names[missing[role]].tolist()) for role in used},
        forced=tuple(names[noted[0]].tolist()),
        small=tuple(names[noted[1]].tolist()),
        warnings=tuple(notes),
    )


def split_path(cache_dir: Path, table: FeatureTable, spec: SplitSpec) -> Path:
    """Where the split of these rows under this spec is kept; vectors and their recipes play no part."""
    choice: dict[str, Any] = spec.identity()
    if spec.spec_version != 1:
        choice["spec_version"] = spec.spec_version
    given = table.split.tolist() if spec.source == "given" and table.split is not None else None
    key = json.dumps([choice, table.rows_hash, given], sort_keys=True)
    return cache_dir / "splits" / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.parquet"


def load_or_make_split(cache_dir: Path, table: FeatureTable, spec: SplitSpec) -> Split:
    """The split kept in the cache for these rows and this spec; made and written if there is none yet.

    A kept split is never computed again: another scikit-learn may cut other rows with the same seed.

    Raises:
        CacheError: as `make_split`, or the kept file was changed.
    """
    path = split_path(cache_dir, table, spec)
    if path.is_file():
        return _load(path, table)
    split = make_split(table, spec)
    facts = {"hash": split.hash, "spec": spec.model_dump(mode="json"), "report": split.report.model_dump(mode="json")}
    names = [table.class_names[i] for i in table.labels]
    columns = {"id": table.ids.tolist(), "group": table.groups.tolist(), "label": names, "role": split.roles.tolist()}
    fields = [(name, pa.string()) for name in columns]
    if split.folds is not None:
        columns["folds"] = split.folds.T.tolist()
        fields.append(("folds", pa.list_(pa.int32())))
    write_parquet(path, pa.table(columns, schema=pa.schema(fields, metadata={SPLIT_KEY: json.dumps(facts)})))
    return split


def _load(path: Path, table: FeatureTable) -> Split:
    ids, roles, folds, report = read_split(path)
    place = {name: i for i, name in enumerate(ids.tolist())}
    if set(place) != set(table.ids.tolist()):
        raise CacheError(f"a split must name the rows of its table, however: {path.name} names others. Delete it.")
    order = np.array([place[name] for name in table.ids.tolist()])
    return _finish(table.ids, roles[order].astype("<U9"), None if folds is None else folds[:, order], report)
