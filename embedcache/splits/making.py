"""Which rows train, select, calibrate and test; made once, kept beside the cache, and loaded ever after."""

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

UNKEPT = "The cache cannot be written, so this split is not kept; another scikit-learn may cut other rows."
SPLITS = {"given": "The given split", "time": "The split by time", "grouped_stratified": "The split from the file"}
"""What a split that may leave classes untrained is called; one that is drawn leaves none."""


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


def make_split(table: FeatureTable, spec: SplitSpec, near: np.ndarray | None = None) -> Split:
    """Share out the rows of a table; the outcome does not depend on their order.

    Test is fold 0 of scikit-learn's StratifiedGroupKFold with round(1 / share) folds; selection and calibration are
    cut in the same way from what is left. Groups that hold the same image count as one group. A table without stated
    groups is cut by StratifiedKFold over its distinct images. A class of which every group was cut away gets a whole
    group back.

    With source "given" the listing names train and test (and selection, where it names validation rows, and
    calibration), as a file of roles does; only the roles that they do not name are cut, from their training rows. With
    source "time" the newest groups are held out (`cut_by_time`). With cross-validation all rows that are not of test
    are training rows, also those which are named otherwise, and `make_folds` says which fold holds each of them out.

    Args:
        table: its vectors count only where near-copies are to stay together.
        spec: how to share its rows out.
        near: int [N], the group of near-copies of each row, where the spec asks for them; of the table's first column
            if left out.

    Raises:
        CacheError: the table is empty, groups are too few for a share or the folds, or roles or times are missing.
    """
    if len(table.ids) == 0:
        raise CacheError(
            "a split needs rows, however: this table has none. Mend what the quarantine names, and embed again."
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
    """The number of each row's group, in an order of the rows, and what is to be said of near-copies."""
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
    """The roles [N] by group and class, and the classes that were brought back to train and that are small."""
    shares = spec.shares
    roles, small = cut_roles(labels, groups, start, shares, spec.seed, stated)
    movable = [role for role in ROLES if role not in set(start)]
    roles, forced = keep_classes_in_train(labels, groups, roles, movable)
    empty = [role for role in movable if shares[role] and not (roles == role).any()]
    if empty:
        pool, beside = roles != "test", "test=0 and " if "test" in empty else ""
        told = advice(labels[pool], groups[pool], spec.seed, stated, before=beside)
        raise CacheError(f"each share above 0 needs rows, however: {empty} got none. {told}")
    return roles, (forced, sorted(small))


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
        notes.append("No groups are stated: near-copies of one object may be in train and in test. State groups.")
    per_group = np.unique(np.stack([groups, np.unique(roles, return_inverse=True)[1]]), axis=1).shape[1]
    straddling = per_group - len(np.unique(groups))
    if straddling:
        notes.append(f"{SPLITS[spec.source]} puts {straddling} groups or identical images into more than one role.")
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
    """Where the split of these rows under this spec is kept.

    Vectors and their recipes play no part, unless near-copies are to stay together: then the cache's first column does.

    Raises:
        CacheError: there is no such file of roles.
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
    """What decides a split beside its settings and what a table's hash knows."""
    if spec.roles_from:
        read_roles(Path(spec.roles_from))
        return file_sha256(Path(spec.roles_from))
    told = {"given": table.split, "time": table.times}.get(spec.source)
    return None if told is None else told.tolist()


def load_or_make_split(cache_dir: Path, table: FeatureTable, spec: SplitSpec, store: Path | None = None) -> Split:
    """The split kept in the cache for these rows and this spec; made and written if there is none yet.

    A kept split is never computed again: another scikit-learn may cut other rows with the same seed. Where the cache
    cannot be written, as on a read-only disk, it is kept in the run store; without one the report warns that it is not
    kept at all.

    Args:
        cache_dir: the cache.
        table: its rows.
        spec: how to share them out.
        store: folder of a run store, which keeps the splits of caches that cannot be written in its folder `splits`.

    Raises:
        CacheError: as `make_split`, the kept file was changed, or the folder of splits is a link.
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
    """Write a split; whether that is allowed there."""
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
        raise CacheError(f"a split must name the rows of its table, however: {path.name} names others. Delete it.")
    order = np.array([place[name] for name in table.ids.tolist()])
    return _finish(table.ids, roles[order].astype("<U9"), None if folds is None else folds[:, order], report)
