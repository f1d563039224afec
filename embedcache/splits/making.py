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
from frostbench.embedcache.splits.folds import advice
from frostbench.embedcache.splits.given_roles import read_roles, start_roles
from frostbench.embedcache.splits.near_copies import near_column, near_in_cache, with_near_copies
from frostbench.embedcache.splits.reports import cross_validate_rows, split_report
from frostbench.embedcache.splits.role_names import ROLES as ROLES
from frostbench.embedcache.splits.spec import SplitSpec as SplitSpec
from frostbench.embedcache.splits.thinning import thin_classes
from frostbench.embedcache.splits.time_cuts import cut_by_time
from frostbench.embedcache.storage.files import CacheError, write_parquet
from frostbench.embedcache.storage.own import check_links
from frostbench.embedcache.table import FeatureTable

UNKEPT = "The cache is not writable, so this split is not stored; another scikit-learn version may split differently."


@dataclass(frozen=True, eq=False)
class Split:
    """Role of each row of a table, with hash and report.

    Attributes:
        roles: str [N], in table order; rows that `imbalance` leaves out have the role "unused".
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
    `make_folds` assigns them to folds. With `imbalance`, training rows are then left out (`thin_classes`); all other
    rows have the role that they have without it.

    Args:
        table: the table; its vectors are read only if near-duplicates must stay together.
        spec: settings of the split.
        near: int [N], group of near-duplicates of each row, if the spec needs them; default: computed from the table's
            first column.

    Raises:
        CacheError: the table is empty, there are too few groups for a share or the folds, roles or times are missing,
            or the classes are too small for the imbalance.
    """
    if len(table.ids) == 0:
        raise CacheError(
            "A split needs rows, but this table has none. Fix what `frostbench cache bad` lists, and embed again."
        )
    order = np.argsort(table.ids, kind="stable")
    labels = table.labels[order]
    groups, notes = _groups(table, spec, near, order)
    if spec.source == "time":
        roles, cut_notes = cut_by_time(None if table.times is None else table.times[order], groups, spec.shares)
        noted: tuple[list[int], list[int]] = ([], [])
        notes += cut_notes
    else:
        roles, noted = _cut(labels, groups, start_roles(table, spec)[order], spec, table.has_groups)
    if spec.imbalance is not None:
        roles, note = thin_classes(labels, roles, spec.imbalance, spec.seed)
        notes.append(note)
    report = split_report(table, spec, labels, groups, roles, noted, notes)
    back = np.argsort(order)
    if not spec.is_cross_validated:
        return _finish(table.ids, roles[back], None, report)
    folds, report = cross_validate_rows(table, labels, groups, roles, spec, report)
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
        remedy = advice(labels[pool], groups[pool], spec.seed, stated, before=beside)
        raise CacheError(f"Each share above 0 needs rows, but {empty} got none. {remedy}")
    return roles, (forced, sorted(small))


def _finish(ids: np.ndarray, roles: np.ndarray, folds: np.ndarray | None, report: SplitReport) -> Split:
    for array in (roles,) if folds is None else (roles, folds):
        array.flags.writeable = False
    return Split(roles, hash_roles(ids, roles, folds), report, folds)


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
    outside = {"given": table.split, "time": table.times}.get(spec.source)
    return None if outside is None else outside.tolist()


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
        CacheError: as in `make_split`; or the stored file was changed, or the folder of splits is a link.
    """
    path = split_path(cache_dir, table, spec)
    places = [path] if store is None else [path, store / "splits" / path.name]
    for place in places:
        if place.is_file():
            return load_split(place, table, spec)
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


def load_split(path: Path, table: FeatureTable, spec: SplitSpec | None = None) -> Split:
    """Load a stored split of a table.

    Args:
        path: the file.
        table: the rows.
        spec: settings it must have been made with; None skips the check.

    Raises:
        CacheError: the file is damaged, lists other rows, or was made with other settings.
    """
    ids, roles, folds, report = read_split(path, None if spec is None else spec.identity())
    place = {name: i for i, name in enumerate(ids.tolist())}
    if set(place) != set(table.ids.tolist()):
        raise CacheError(f"A split must list the rows of its table, but {path.name} lists others. Delete it.")
    order = np.array([place[name] for name in table.ids.tolist()])
    return _finish(table.ids, roles[order].astype("<U9"), None if folds is None else folds[:, order], report)
