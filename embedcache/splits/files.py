"""Split files as they lie in a cache, with their reports; needs no scikit-learn, which takes long to import."""

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
    """What a reader must know of a split before trusting a number made with it."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    counts: dict[str, int]
    """Rows by role."""
    groups: dict[str, int]
    """Groups by role; groups that hold the same image count as one."""
    missing: dict[str, tuple[str, ...]]
    """Classes of the table without a row in a role, for each role that is used."""
    forced: tuple[str, ...]
    """Classes of which a whole group went back to train, since every group of theirs had been cut away."""
    small: tuple[str, ...]
    """Classes with too few rows to have one in every fold of a cut."""
    warnings: tuple[str, ...]
    """Sentences to show."""


def hash_roles(ids: np.ndarray, roles: np.ndarray, folds: np.ndarray | None = None) -> str:
    """SHA-256 of a split: the ids, sorted, with their roles [N] and, where there are any, their folds [repeats, N]."""
    parts = (ids.tolist(), roles.tolist()) if folds is None else (ids.tolist(), roles.tolist(), folds.T.tolist())
    rows = sorted(zip(*parts, strict=True))
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()


def hash_facts(facts: Mapping[str, Any]) -> str:
    """SHA-256 of what a split file states beside its rows: their hash, the settings and the report."""
    told = {name: facts[name] for name in ("hash", "spec", "report")}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def read_split(
    path: Path, settings: Mapping[str, Any] | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, SplitReport]:
    """The ids [N], roles [N], folds [repeats, N] (None where there are none) and report in a split file.

    Args:
        path: of the file.
        settings: what it must have been made with, as `SplitSpec.identity` says it; None asks for none.

    Raises:
        CacheError: the file is damaged, another program wrote it, its rows do not have the hash that it states, or it
            was made with other settings.
    """
    with reading(path):
        rows = pq.read_table(path, partitioning=None, page_checksum_verification=True)
        metadata = rows.schema.metadata or {}
        if SPLIT_KEY not in metadata:
            raise CacheError(
                f"a split must stay as it was made, however: {path} was written by another program, and its hash and "
                f"report are gone. {remedy(path)}"
            )
        facts = json.loads(metadata[SPLIT_KEY])
        ids, roles = (np.array(rows[name].to_pylist(), dtype=str) for name in ("id", "role"))
        folds = np.array(rows["folds"].to_pylist(), dtype=np.int64).T if "folds" in rows.column_names else None
        stated, report = facts["hash"], SplitReport.model_validate(facts["report"])
        sealed = facts.get("sha256", hash_facts(facts)) == hash_facts(facts)
        made_with = SplitSpec.model_validate(facts["spec"]).identity() if settings is not None else None
    if made_with != settings:
        raise CacheError(
            f"a split has the settings of its name, however: {path} was made with others. Was it copied? {remedy(path)}"
        )
    if hash_roles(ids, roles, folds) != stated or not sealed:
        raise CacheError(f"a split must stay as it was made, however: {path} was changed. {remedy(path)}")
    return ids, roles, folds, report
