"""The run store: one folder per finished run, and flat views of all of them.

    STORE/runs/KEY/record.json        settings, data, metrics, per-class arrays, environment
    STORE/runs/KEY/outcomes.parquet   one row per evaluated image
    STORE/runs/KEY/head/              the bundle of the trained head; an ensemble's heads lie with its members
    STORE/records.parquet             every record as one flat row
    STORE/splits/KEY.parquet          splits of caches that cannot be written

A run folder gets its name when everything in it is written, so a run that is there is finished. One that was stopped
is kept as KEY-stopped-EPOCH, so that it is never taken for the finished run.
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
from frostbench.embedcache.outputs.leftovers import clear_leftovers
from frostbench.embedcache.outputs.places import check_folder
from frostbench.embedcache.outputs.writing import is_empty_folder, new_folder
from frostbench.heads.bundle import export
from frostbench.heads.bundle.export import Canary
from frostbench.heads.bundle.files import digest, is_as_sealed, sealed
from frostbench.heads.trained import TrainedHead


def _of_one_name(found: Any) -> Any:
    """A record without its digest, whose notes all stand under `notes`: some were written with `warnings` too."""
    found = {name: value for name, value in found.items() if name != SEAL} if isinstance(found, dict) else found
    if not isinstance(found, dict) or "warnings" not in found:
        return found
    rest = {name: value for name, value in found.items() if name not in ("warnings", "notes")}
    given = [found["warnings"], found.get("notes", [])]
    return rest | {
        "notes": [note for each in given for note in each] if all(isinstance(e, list) for e in given) else None
    }


_RECORD: TypeAdapter[RunRecord] = TypeAdapter(Annotated[RunRecord, BeforeValidator(_of_one_name)])
ANSWERS, SEAL = "outcomes.parquet", "record_sha256"
"""The file of outcomes, and the key under which a record has the digest of all that else stands in it."""
_KEY = re.compile("[0-9A-Za-z][0-9A-Za-z._-]{0,199}")


class StoreError(ValueError):
    """A file of the run store is missing, damaged or of another version."""


def run_folder(store: Path, key: str) -> Path:
    """Where a run is kept; keys may come from files of a store that somebody else made.

    Raises:
        StoreError: the key is no name of a folder of the store.
    """
    if _KEY.fullmatch(key) is None:
        raise StoreError(
            f"a run is called by letters, digits, dots, dashes and underscores, however: {key[:100]!r} came. Was a "
            "file of the store edited?"
        )
    return store / "runs" / key


def stopped_key(key: str, epoch: int) -> str:
    """The name under which a run that was stopped after an epoch is kept.

    >>> stopped_key("5d1f", 12)
    '5d1f-stopped-12'
    """
    return f"{key}-stopped-{epoch}"


def is_finished(store: Path, key: str) -> bool:
    """Whether a run is in the store."""
    return (run_folder(store, key) / "record.json").is_file()


def save_run(
    store: Path,
    record: RunRecord,
    outcomes: pd.DataFrame,
    head: TrainedHead | None,
    canary: Canary | None,
) -> Path:
    """Put a finished run into the store, whole or not at all; returns its folder. An ensemble brings no head."""
    folder = run_folder(store, record.key)
    if is_finished(store, record.key):
        return folder
    try:
        with new_folder(folder, "a run") as partial:
            if head is not None:
                export.fill(head, partial / "head", canary)
            outcomes[list(OUTCOMES)].to_parquet(partial / ANSWERS, index=False)
            digests = {ANSWERS: digest((partial / ANSWERS).read_bytes())}
            (partial / "record.json").write_text(as_json(replace(record, digests=digests)), encoding="utf-8")
    except FileExistsError:
        if not is_finished(store, record.key):  # else another process has finished the same run meanwhile
            raise
    return folder


def as_json(record: RunRecord) -> str:
    """A record as the text of its file, with a digest of all that stands in it."""
    return json.dumps(sealed(json.loads(_RECORD.dump_json(record)), SEAL), indent=1, ensure_ascii=False)


def check_store(store: Path) -> None:
    """Refuse a store into which no run can be written, and delete what killed processes left half-written in it.

    Raises:
        OutputError: it cannot be made or written.
    """
    check_folder(store / "runs")
    for folder in (store, store / "runs", store / "failed"):
        if folder.is_dir():
            clear_leftovers(folder)


def check_run_place(store: Path, key: str) -> None:
    """Refuse, before it is trained, a run whose place is taken: what lies there is not ours to replace.

    Raises:
        StoreError: its folder holds files and no record.
    """
    folder = run_folder(store, key)
    if os.path.lexists(folder) and not is_finished(store, key) and not is_empty_folder(folder):
        raise StoreError(
            f"the folder of a run holds a record, however: {folder} holds none. Move it elsewhere, and run again: the "
            "run is trained anew."
        )


def read_record(store: Path, key: str) -> RunRecord:
    """A run's record.

    Raises:
        StoreError: there is none, or it is damaged or of another version.
    """
    path = run_folder(store, key) / "record.json"
    if not path.is_file():
        raise StoreError(
            f"a run must be in the store, however: {path} is missing. Run the bench; it trains only what is not there."
        )
    return _read(path)


def read_outcomes(store: Path, key: str, role: str) -> pd.DataFrame:
    """A run's outcomes on the rows of one role, by id.

    Raises:
        StoreError: the file is missing, damaged or not that of the record, or the role has no rows.
    """
    path = run_folder(store, key) / ANSWERS
    wanted = read_record(store, key).digests.get(ANSWERS)
    try:
        content = path.read_bytes()
        if wanted not in (None, digest(content)):
            raise ValueError("its content is not what the run wrote")
        rows = pd.read_parquet(BytesIO(content), columns=list(OUTCOMES), filters=[("role", "==", role)])
    except (OSError, ValueError) as error:
        raise StoreError(
            f"a run's outcomes must be readable, however: {path} is not ({error}). Delete its folder and run again."
        ) from error
    if rows.empty:
        raise StoreError(
            f"a comparison needs rows, however: run {key} has none of role {role!r}. Choose another role, or a split "
            "with a share for it."
        )
    return rows.sort_values("id", ignore_index=True)


def require_runs(store: Path, rows: Mapping[str, Sequence[str]], cache: str) -> None:
    """Refuse rows of runs that are not all in the store.

    Raises:
        StoreError: a run is missing.
    """
    lacking = {name: sum(not is_finished(store, key) for key in keys) for name, keys in rows.items()}
    told = ", ".join(f"{n} of {len(rows[name])} of row {name!r}" for name, n in lacking.items() if n)
    if told:
        raise StoreError(
            f"every run of a bench must be in its store, however: {store} lacks {told} on cache {cache} as bench file "
            "and cache are now. Run the bench first; it trains only what is not there."
        )


def _read(path: Path) -> RunRecord:
    content = path.read_bytes()
    try:
        record = _RECORD.validate_json(content)
    except ValidationError as error:
        told = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3])
        raise StoreError(
            f"{path} must be a record of format 1, however: {told} (written by {_writer(content)}). Delete its folder "
            "and run the bench again, or read it with the version that wrote it."
        ) from error
    if not _is_as_written(content):
        raise StoreError(
            f"a record must be as the run wrote it, however: {path} was changed. Put the old file back, or delete its "
            "folder and run the bench again."
        )
    return record


def _is_as_written(content: bytes) -> bool:
    """Whether a record is what its digest says; one that JSON has no numbers for was written by nobody of ours."""
    try:
        return is_as_sealed(json.loads(content), SEAL)
    except ValueError:
        return False


def _writer(content: bytes) -> str:
    """Which version wrote a record, as far as it says so."""
    try:
        tree = json.loads(content)
        return f"frostbench {tree['environment']['frostbench']} in format {tree.get('format_version', 'none')}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return "an unknown version"
