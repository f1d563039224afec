"""SplitSpec: which rows train, select, calibrate and test; made once, kept beside the cache, and loaded ever after."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, Field, model_validator

from embedcache.config import SETTINGS
from embedcache.cuts import cut_roles, keep_classes_in_train, merge_groups
from embedcache.files import CacheError, write_parquet
from embedcache.split_files import SPLIT_KEY
from embedcache.split_files import SplitReport as SplitReport
from embedcache.split_files import hash_roles as hash_roles
from embedcache.split_files import read_split as read_split
from embedcache.table import FeatureTable

ROLES = ("train", "select", "calibrate", "test")
GIVEN_NAMES = {
    "train": ("train", "training"),
    "select": ("val", "valid", "validation", "dev", "select"),
    "calibrate": ("calibrate", "calibration"),
    "test": ("test", "testing"),
}


class SplitSpec(BaseModel):
    """How the rows of a table are shared out; all shares are of all rows, and groups stay whole.

    Raises:
        pydantic.ValidationError: a field is out of its bounds, or a share is more than half of what is left for it.
    """

    model_config = SETTINGS
    spec_version: ClassVar[int] = 1

    kind: Literal["split"] = "split"
    seed: int = Field(42, ge=0, le=2**32 - 3)
    """Seed of the test cut; selection and calibration use the next two numbers."""
    test: float = Field(0.2, ge=0, le=0.5)
    """Share of rows kept for the final test; 0 leaves that role empty."""
    select: float = Field(0.15, ge=0, le=0.5)
    """Share of rows on which settings and epochs are chosen; 0 leaves that role empty."""
    calibrate: float = Field(0.1, ge=0, le=0.5)
    """Share of rows on which temperatures are fitted; 0 leaves that role empty."""
    source: Literal["grouped_stratified", "given"] = "grouped_stratified"
    """Whether test rows are drawn by group and class, or are those that the listing's split column names."""

    @model_validator(mode="after")
    def _shares_leave_rows(self) -> Self:
        left = 1.0
        for name in ("test", "select", "calibrate"):
            share = getattr(self, name)
            if share > left / 2:
                raise ValueError(
                    f"a share must be at most half of the rows left for it, however: {name}={share} of {left:.2f}. "
                    "Lower it, or the shares before it."
                )
            left -= share
        return self


@dataclass(frozen=True, eq=False)
class Split:
    """The role of each row of a table, str [N] in table order, with its hash and its report."""

    roles: np.ndarray
    hash: str
    report: SplitReport


def make_split(table: FeatureTable, spec: SplitSpec) -> Split:
    """Share out the rows of a table; the outcome does not depend on their order.

    Test is fold 0 of scikit-learn's StratifiedGroupKFold with round(1 / share) folds; selection and calibration are
    cut in the same way from what is left. Groups that hold the same image count as one group. A table without stated
    groups is cut by StratifiedKFold over its distinct images. A class of which every group was cut away gets a whole
    group back.

    With source "given" the listing names train and test (and selection, where it names validation rows, and
    calibration); only the roles that it does not name are cut, from its training rows.

    Raises:
        CacheError: the table is empty, there are too few groups for a share, or the given split is missing, partial or
            has unknown names.
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
    shares = {role: getattr(spec, role) for role in ("test", "select", "calibrate")}
    roles, small = cut_roles(labels, groups, start, shares, spec.seed, table.has_groups)
    movable = [role for role in ROLES if role not in set(start)]
    roles, forced = keep_classes_in_train(labels, groups, roles, movable)
    empty = [role for role in movable if shares[role] and not (roles == role).any()]
    if empty:
        raise CacheError(
            f"each share above 0 needs rows, however: {empty} got none. State finer groups, or set it to 0."
        )
    in_table_order = np.empty_like(roles)
    in_table_order[order] = roles
    report = _report(table, labels, groups, roles, (forced, sorted(small)))
    return _finish(table.ids, in_table_order, report)


def _finish(ids: np.ndarray, roles: np.ndarray, report: SplitReport) -> Split:
    roles.flags.writeable = False
    return Split(roles, hash_roles(ids, roles), report)


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
    return np.array([role_of[name.strip().lower()] for name in table.split], dtype="<U9")


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
    choice: dict[str, Any] = {"kind": spec.kind} | spec.model_dump(mode="json", exclude_defaults=True)
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
    schema = pa.schema([(name, pa.string()) for name in columns], metadata={SPLIT_KEY: json.dumps(facts)})
    write_parquet(path, pa.table(columns, schema=schema))
    return split


def _load(path: Path, table: FeatureTable) -> Split:
    ids, roles, report = read_split(path)
    role_of = dict(zip(ids.tolist(), roles.tolist(), strict=True))
    if set(role_of) != set(table.ids.tolist()):
        raise CacheError(f"a split must name the rows of its table, however: {path.name} names others. Delete it.")
    return _finish(table.ids, np.array([role_of[one] for one in table.ids.tolist()], dtype="<U9"), report)
