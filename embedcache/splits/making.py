"""Making a split once, storing it in the cache, and loading it from then on."""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from frostbench.embedcache.hashes import file_sha256
from frostbench.embedcache.outputs.places import is_refused
from frostbench.embedcache.splits.cuts import cut_roles, keep_classes_in_train, merge_groups
from frostbench.embedcache.splits.files import SPLIT_KEY, hash_facts
from frostbench.embedcache.splits.files import SplitReport as SplitReport
from frostbench.embedcache.splits.files import hash_roles as hash_roles
from frostbench.embedcache.splits.files import read_split as read_split
from frostbench.embedcache.splits.folds import advice, make_folds, single_groups, small_classes, unlearnt
from frostbench.embedcache.splits.given_roles import read_roles, start_roles
from frostbench.embedcache.splits.near_copies import near_column, near_in_cache, with_near_copies
from frostbench.embedcache.splits.role_names import ROLES as ROLES
from frostbench.embedcache.splits.spec import SplitSpec as SplitSpec
from frostbench.embedcache.splits.time_cuts import cut_by_time
from frostbench.embedcache.storage.files import CacheError, write_parquet
from frostbench.embedcache.storage.own import check_links
from frostbench.embedcache.table import FeatureTable

UNKEPT = "The cache is not writable, so this split is not stored; another scikit-learn version may split differently."
SPLITS = {"given": "The given split", "time": "The split by time", "grouped_stratified": "The split from the file"}
"""Names of splits that may leave classes without training rows."""


@dataclass(frozen=True, eq=False)
class Split:
    """Role of each row of a table, with hash and report.

    Attributes:
        roles: str [N], in table order.
        hash: hash of ids, roles and folds.
        report: facts that affect how metrics can be read.
        folds: int64 [repeats, N], the fold in which each row is held out, -1 for test rows; all other rows have the
            role train. None without cross-validation.
    """

    roles: np.ndarray
    hash: str
    report: SplitReport
    folds: np.ndarray | None = None


def make_split(table: FeatureTable, spec: SplitSpec, near: np.ndarray | None = None) -> Split:
    """Split the rows of a table; the result does not depend on their order.

    Test rows are fold 0 of scikit-learn's StratifiedGroupKFold with round(1 / share) folds; validation and calibration
    rows are then taken from the rest in the same way. Groups that share an image count as one. A table without given
    groups uses StratifiedKFold over its distinct images. A class that lost all groups gets one back for training.

    With source "given" the listing states train and test (and possibly validation and calibration), as a role file
    does; only roles that are not stated are taken from the training rows. With source "time" the newest groups are held
    out (`cut_by_time`). With cross-validation all rows outside the test set are training rows, whatever was stated, and
    `make_folds` assigns them to folds.

    Args:
        table: the table; its vectors are read only if near-duplicates must stay together.
        spec: settings of the split.
        near: int [N], group of near-duplicates of each row, if the spec needs them; default: computed from the table's
            first column.

    Raises:
        CacheError: the table is empty, there are too few groups for a share or the folds, or roles or times are
            missing.
    """
    if len(table.ids) == 0:
        raise CacheError(
            "A split needs rows, but this table has none. Fix the reasons given in the quarantine, and embed again."
        )
    order = np.argsort(table.ids, kind="stable")
    labels = table.labels[order]
    groups, notes = _groups(table, spec, near, order)
    if spec.source == "time":
        roles, told = cut_by_time(None if table.times is None else table.times[order], groups, spec.shares)
        report = _report(table, spec, labels, groups, roles, ([], []), [*notes, *told])
    else:
        roles, noted = _cut(labels, groups, start_roles(table, spec)[order], spec, table.has_groups)
        report = _report(table, spec, labels, groups, roles, noted, notes)
    back = np.argsort(order)
    if not spec.is_cross_validated:
        return _finish(table.ids, roles[back], None, report)
    folds, report = _cross_validated(table, labels, groups, roles, spec, report)
    return _finish(table.ids, roles[back], folds[:, back], report)


def _groups(
    table: FeatureTable, spec: SplitSpec, near: np.ndarray | None, order: np.ndarray
) -> tuple[np.ndarray, list[str]]:
    """Return the group number of each row, in the given row order, and notes on near-duplicates."""
    groups = merge_groups(table.groups[order], table.content[order])
    if spec.duplicates is None:
        return groups, []
    if near is None:
        from frostbench.embedcache.index.groups import near_groups

        near = near_groups(table, spec.duplicates)
    groups, note = with_near_copies(groups, near[order], spec.duplicates)
    return groups, [note]


def _cut(
    labels: np.ndarray, groups: np.ndarray, start: np.ndarray, spec: SplitSpec, stated: bool
) -> tuple[np.ndarray, tuple[list[int], list[int]]]:
    """Return the roles [N], the classes returned to training, and the classes that are too small."""
    shares = spec.shares
    roles, small = cut_roles(labels, groups, start, shares, spec.seed, stated)
    movable = [role for role in ROLES if role not in set(start)]
    roles, forced = keep_classes_in_train(labels, groups, roles, movable)
    empty = [role for role in movable if shares[role] and not (roles == role).any()]
    if empty:
        pool, beside = roles != "test", "test=0 and " if "test" in empty else ""
        told = advice(labels[pool], groups[pool], spec.seed, stated, before=beside)
        raise CacheError(f"Each share above 0 needs rows, but {empty} got none. {told}")
    return roles, (forced, sorted(small))


def _cross_validated(
    table: FeatureTable, labels: np.ndarray, groups: np.ndarray, roles: np.ndarray, spec: SplitSpec, report: SplitReport
) -> tuple[np.ndarray, SplitReport]:
    """Return the folds [repeats, N] of the rows outside the test set, and the report."""
    pool = roles != "test"
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
            f"{len(single)} classes have one group, so they cannot be learned while it is held out, and its rows count "
            f"as errors: {', '.join(single[:10])}{' …' if len(single) > 10 else '.'}"
        )
    apart = sorted({label for each in found for label in unlearnt(own, units, each)})
    if apart:
        notes.append(f"All groups of these classes are in one fold: {', '.join(names[apart][:10].tolist())}.")
    small = {*report.small, *(names[small_classes(own, units, spec.folds)].tolist())}
    ordered = tuple(name for name in names.tolist() if name in small)
    return folds, report.model_copy(update={"warnings": (*report.warnings, *notes), "small": ordered})


def _finish(ids: np.ndarray, roles: np.ndarray, folds: np.ndarray | None, report: SplitReport) -> Split:
    for array in (roles,) if folds is None else (roles, folds):
        array.flags.writeable = False
    return Split(roles, hash_roles(ids, roles, folds), report, folds)


def _report(
    table: FeatureTable,
    spec: SplitSpec,
    labels: np.ndarray,
    groups: np.ndarray,
    roles: np.ndarray,
    noted: tuple[list[int], list[int]],
    told: list[str],
) -> SplitReport:
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
        notes.append(f"{SPLITS[spec.source]} divides {straddling} groups or identical images between roles.")
    if missing["train"]:
        notes.append(f"{SPLITS[spec.source]} leaves {len(missing['train'])} classes without a training row.")
    return SplitReport(
        counts={role: int((roles == role).sum()) for role in ROLES},
        groups={role: len(np.unique(groups[roles == role])) for role in ROLES},
        missing={role: tuple(names[missing[role]].tolist()) for role in used},
        forced=tuple(names[noted[0]].tolist()),
        small=tuple(names[noted[1]].tolist()),
        warnings=(*notes, *told),
    )


def split_path(cache_dir: Path, table: FeatureTable, spec: SplitSpec) -> Path:
    """Return the path of the split of these rows with this spec.

    It does not depend on the vectors, except on the cache's first column if near-duplicates must stay together.

    Raises:
        CacheError: the role file does not exist.
    """
    choice: dict[str, Any] = spec.identity()
    if spec.spec_version != 1:
        choice["spec_version"] = spec.spec_version
    parts = [choice, table.rows_hash, _outside(table, spec)]
    if spec.duplicates is not None:
        parts.append(near_column(cache_dir))
    key = json.dumps(parts, sort_keys=True)
    return cache_dir / "splits" / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.parquet"


def _outside(table: FeatureTable, spec: SplitSpec) -> Any:
    """Return what determines a split besides its settings and the table's hash."""
    if spec.roles_from:
        read_roles(Path(spec.roles_from))
        return file_sha256(Path(spec.roles_from))
    told = {"given": table.split, "time": table.times}.get(spec.source)
    return None if told is None else told.tolist()


def load_or_make_split(cache_dir: Path, table: FeatureTable, spec: SplitSpec, store: Path | None = None) -> Split:
    """Load the stored split of these rows and this spec, or make and store it.

    A stored split is never computed again, because another scikit-learn version may split differently with the same
    seed. If the cache is not writable, for example on a read-only disk, the split is stored in the run store; without
    one, the report warns that it is not stored.

    Args:
        cache_dir: the cache.
        table: its rows.
        spec: settings of the split.
        store: folder of a run store, whose folder `splits` stores the splits of caches that are not writable.

    Raises:
        CacheError: see `make_split`; or the stored file was changed, or the folder of splits is a link.
    """
    path = split_path(cache_dir, table, spec)
    places = [path] if store is None else [path, store / "splits" / path.name]
    for place in places:
        if place.is_file():
            return _load(place, table, spec)
    near = None if spec.duplicates is None else near_in_cache(cache_dir, table, spec.duplicates)
    split = make_split(table, spec, near)
    facts = {"hash": split.hash, "spec": spec.model_dump(mode="json"), "report": split.report.model_dump(mode="json")}
    facts["sha256"] = hash_facts(facts)
    names = [table.class_names[i] for i in table.labels]
    columns = {"id": table.ids.tolist(), "group": table.groups.tolist(), "label": names, "role": split.roles.tolist()}
    fields = [(name, pa.string()) for name in columns]
    if split.folds is not None:
        columns["folds"] = split.folds.T.tolist()
        fields.append(("folds", pa.list_(pa.int32())))
    rows = pa.table(columns, schema=pa.schema(fields, metadata={SPLIT_KEY: json.dumps(facts)}))
    check_links(cache_dir)
    if any(_is_kept(rows, place) for place in places):
        return split
    return replace(split, report=split.report.model_copy(update={"warnings": (*split.report.warnings, UNKEPT)}))


def _is_kept(rows: pa.Table, path: Path) -> bool:
    """Write a split; return whether the folder is writable."""
    try:
        write_parquet(path, rows)
    except OSError as error:
        if is_refused(error):
            return False
        raise
    return True


def _load(path: Path, table: FeatureTable, spec: SplitSpec) -> Split:
    ids, roles, folds, report = read_split(path, spec.identity())
    place = {name: i for i, name in enumerate(ids.tolist())}
    if set(place) != set(table.ids.tolist()):
        raise CacheError(f"A split must list the rows of its table, but {path.name} lists others. Delete it.")
    order = np.array([place[name] for name in table.ids.tolist()])
    return _finish(table.ids, roles[order].astype("<U9"), None if folds is None else folds[:, order], report)
