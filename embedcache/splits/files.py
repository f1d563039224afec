"""Split files and their reports; does not import scikit-learn, which is slow to import."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict

from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.embedcache.storage.damage import reading, remedy
from frostbench.embedcache.storage.files import CacheError

SPLIT_KEY = b"embedcache.split"


class SplitReport(BaseModel):
    """Facts about a split that affect how its metrics can be read."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    counts: dict[str, int]
    """Rows by role."""
    groups: dict[str, int]
    """Groups by role; groups that share an image count as one."""
    missing: dict[str, tuple[str, ...]]
    """Classes without rows in a role, for each role that is used."""
    forced: tuple[str, ...]
    """Classes of which one group was returned to training, because all their groups had been held out."""
    small: tuple[str, ...]
    """Classes with too few rows or groups to have one in every fold."""
    warnings: tuple[str, ...]
    """Sentences for the user."""


def hash_roles(ids: np.ndarray, roles: np.ndarray, folds: np.ndarray | None = None) -> str:
    """Compute the SHA-256 of a split: the sorted ids with their roles [N] and, if any, their folds [repeats, N]."""
    parts = (ids.tolist(), roles.tolist()) if folds is None else (ids.tolist(), roles.tolist(), folds.T.tolist())
    rows = sorted(zip(*parts, strict=True))
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()


def hash_facts(facts: Mapping[str, Any]) -> str:
    """Compute the SHA-256 of a split file's metadata: the hash of its rows, the settings and the report."""
    metadata = {name: facts[name] for name in ("hash", "spec", "report")}
    return hashlib.sha256(json.dumps(metadata, sort_keys=True).encode()).hexdigest()


def read_split(
    path: Path, settings: Mapping[str, Any] | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, SplitReport]:
    """Read the ids [N], roles [N], folds [repeats, N] (None if there are none) and report of a split file.

    Args:
        path: the file.
        settings: settings it must have been made with, as in `SplitSpec.identity`; None skips the check.

    Raises:
        CacheError: the file is damaged, was written by another program, does not match its hash, or was made with other
            settings.
    """
    with reading(path):
        rows = pq.read_table(path, partitioning=None, page_checksum_verification=True)
        metadata = rows.schema.metadata or {}
        if SPLIT_KEY not in metadata:
            raise CacheError(
                f"A split must not be changed, but {path} was written by another program and has lost its hash and "
                f"report. {remedy(path)}"
            )
        facts = json.loads(metadata[SPLIT_KEY])
        ids, roles = (np.array(rows[name].to_pylist(), dtype=str) for name in ("id", "role"))
        folds = np.array(rows["folds"].to_pylist(), dtype=np.int64).T if "folds" in rows.column_names else None
        stated, report = facts["hash"], SplitReport.model_validate(facts["report"])
        sealed = facts.get("sha256", hash_facts(facts)) == hash_facts(facts)
        made_with = SplitSpec.model_validate(facts["spec"]).identity() if settings is not None else None
    if made_with != settings:
        raise CacheError(
            f"A split file must have the settings that its name identifies, but {path} has others. {remedy(path)}"
        )
    if hash_roles(ids, roles, folds) != stated or not sealed:
        raise CacheError(f"A split must not be changed, but {path} was. {remedy(path)}")
    return ids, roles, folds, report
