"""The run store: one folder per finished run, and a flat view of all runs.

    STORE/runs/KEY/record.json        settings, data, metrics, per-class arrays, environment
    STORE/runs/KEY/outcomes.parquet   one row per evaluated image
    STORE/runs/KEY/head/              bundle of the trained head; the heads of an ensemble are stored with its members
    STORE/runs/KEY/logits.safetensors logits of the evaluated images, once they were needed
    STORE/runs/KEY/decision.json      decision kept for the export, if any
    STORE/records.parquet             every record as one flat row
    STORE/splits/KEY.parquet          splits of caches that are read-only

A run folder gets its name only when it is complete, so every run in the store is finished. A stopped run is stored as
KEY-stopped-EPOCH, so that it is never mistaken for the finished run.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import BeforeValidator, TypeAdapter, ValidationError

from frostbench.benchmarks.runs.record import OUTCOMES, RunRecord
from frostbench.benchmarks.settings.nouns import with_noun
from frostbench.embedcache.outputs.leftovers import clear_leftovers
from frostbench.embedcache.outputs.places import check_folder
from frostbench.embedcache.outputs.writing import is_empty_folder, new_folder
from frostbench.heads.bundle import export
from frostbench.heads.bundle.export import Canary
from frostbench.heads.bundle.files import digest, is_as_sealed, sealed
from frostbench.heads.trained import TrainedHead


def _without_old_fields(found: Any) -> Any:
    """Remove the digest from a record, and move the `warnings` of older records to `notes`."""
    found = {name: value for name, value in found.items() if name != SEAL} if isinstance(found, dict) else found
    if not isinstance(found, dict) or "warnings" not in found:
        return found
    rest = {name: value for name, value in found.items() if name not in ("warnings", "notes")}
    parts = [found["warnings"], found.get("notes", [])]
    is_valid = all(isinstance(part, list) for part in parts)
    return rest | {"notes": [note for part in parts for note in part] if is_valid else None}


_RECORD: TypeAdapter[RunRecord] = TypeAdapter(Annotated[RunRecord, BeforeValidator(_without_old_fields)])
OUTCOMES_FILE, DECISION_FILE, SEAL = "outcomes.parquet", "decision.json", "record_sha256"
"""Files of outcomes and of a decision kept later, and the key of the digest of a record's other content."""
SHOWN = 3
"""Number of rows that a message about missing runs names."""
_KEY = re.compile("[0-9A-Za-z][0-9A-Za-z._-]{0,199}")


class StoreError(ValueError):
    """A file of the run store is missing, damaged or of another version."""


def run_folder(store: Path, key: str) -> Path:
    """Return the folder of a run, after checking the key, which may come from an untrusted store.

    Raises:
        StoreError: the key is not a valid folder name.
    """
    if _KEY.fullmatch(key) is None:
        raise StoreError(
            "A run key must consist of letters, digits, dots, dashes and underscores, start with a letter or digit and "
            f"have at most 200 characters, got {key[:100]!r}. Check whether a file of the store was edited."
        )
    return store / "runs" / key


def stopped_key(key: str, epoch: int) -> str:
    """Return the key under which a run that was stopped after an epoch is stored.

    >>> stopped_key("5d1f", 12)
    '5d1f-stopped-12'
    """
    return f"{key}-stopped-{epoch}"


def is_finished(store: Path, key: str) -> bool:
    """Return whether a run is in the store."""
    return (run_folder(store, key) / "record.json").is_file()


def save_run(
    store: Path,
    record: RunRecord,
    outcomes: pd.DataFrame,
    head: TrainedHead | None,
    canary: Canary | None,
) -> Path:
    """Write a finished run to the store atomically and return its folder; an ensemble has no head of its own."""
    folder = run_folder(store, record.key)
    if is_finished(store, record.key):
        return folder
    try:
        with new_folder(folder, "a run") as partial:
            if head is not None:
                export.fill(head, partial / "head", canary)
            outcomes[list(OUTCOMES)].to_parquet(partial / OUTCOMES_FILE, index=False)
            digests = {OUTCOMES_FILE: digest((partial / OUTCOMES_FILE).read_bytes())}
            (partial / "record.json").write_text(as_json(replace(record, digests=digests)), encoding="utf-8")
    except FileExistsError:
        if not is_finished(store, record.key):  # otherwise another process has finished the same run meanwhile
            raise
    return folder


def as_json(record: RunRecord) -> str:
    """Return the JSON text of a record, with a digest of its content."""
    return json.dumps(sealed(json.loads(_RECORD.dump_json(record)), SEAL), indent=1, ensure_ascii=False)


def check_store(store: Path) -> None:
    """Check that runs can be written to a store, and delete partial files left by killed processes.

    Raises:
        OutputError: the store cannot be created or written.
    """
    check_folder(store / "runs")
    for folder in (store, store / "runs", store / "failed"):
        if folder.is_dir():
            clear_leftovers(folder)


def check_run_place(store: Path, key: str) -> None:
    """Check, before a run is trained, that its folder does not hold foreign files.

    Raises:
        StoreError: the folder holds files but no record.
    """
    folder = run_folder(store, key)
    if os.path.lexists(folder) and not is_finished(store, key) and not is_empty_folder(folder):
        raise StoreError(
            f"The folder of a run must hold a record, but {folder} holds other files and no record. Move it elsewhere "
            "and run the bench again."
        )


def read_record(store: Path, key: str) -> RunRecord:
    """Read the record of a run.

    Raises:
        StoreError: the record is missing, damaged or of another version.
    """
    path = run_folder(store, key) / "record.json"
    if not path.is_file():
        raise StoreError(f"The run is not in the store: {path} is missing. Run the bench; it trains only missing runs.")
    return _read(path)


def read_outcomes(store: Path, key: str, role: str) -> pd.DataFrame:
    """Read the outcomes of a run on the rows of one role, sorted by id.

    Raises:
        StoreError: the file is missing, damaged or does not belong to the record, or the role has no rows.
    """
    path = run_folder(store, key) / OUTCOMES_FILE
    expected = read_record(store, key).digests.get(OUTCOMES_FILE)
    try:
        content = path.read_bytes()
        if expected not in (None, digest(content)):
            raise ValueError("its content is not what the run wrote")
        rows = pd.read_parquet(BytesIO(content), columns=list(OUTCOMES), filters=[("role", "==", role)])
    except (OSError, ValueError) as error:
        raise StoreError(
            f"Cannot read the outcomes of a run, {path}: {error}. Delete its folder and run the bench again."
        ) from error
    if rows.empty:
        raise StoreError(
            f"A comparison needs rows, but run {key} has none with role {role!r}. Choose another role, or a split with "
            f"a {role} share."
        )
    return rows.sort_values("id", ignore_index=True)


def require_runs(store: Path, rows: Mapping[str, Sequence[str]], cache: str) -> None:
    """Check that all runs of rows are in the store.

    Raises:
        StoreError: a run is missing.
    """
    counts = {name: sum(not is_finished(store, key) for key in keys) for name, keys in rows.items()}
    lacking = [f"{n} of {with_noun(len(rows[name]), 'run')} of row {name!r}" for name, n in counts.items() if n]
    if lacking:
        rest = f" and runs of {with_noun(len(lacking) - SHOWN, 'other row')}" if len(lacking) > SHOWN else ""
        raise StoreError(
            f"All runs of the bench must be in its store, but {store} lacks {', '.join(lacking[:SHOWN])}{rest} on "
            f"cache {cache}. Run the bench first; it trains only missing runs."
        )


def _read(path: Path) -> RunRecord:
    content = path.read_bytes()
    try:
        record = _RECORD.validate_json(content)
    except ValidationError as error:
        errors = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3])
        raise StoreError(
            f"{path} must be a record of format 1, but is not: {errors} (written by {_writer(content)}). Delete its "
            "folder and run the bench again, or read it with the version that wrote it."
        ) from error
    if not _is_as_written(content):
        raise StoreError(
            f"{path} was changed after the run wrote it. Restore the original file, or delete its folder and run the "
            "bench again."
        )
    return record


def _is_as_written(content: bytes) -> bool:
    try:
        return is_as_sealed(json.loads(content), SEAL)
    except ValueError:  # a number that JSON cannot represent, which no run writes
        return False


def _writer(content: bytes) -> str:
    """Describe the version that wrote a record."""
    try:
        tree = json.loads(content)
        return f"frostbench {tree['environment']['frostbench']} in format {tree.get('format_version', 'none')}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return "an unknown version"
