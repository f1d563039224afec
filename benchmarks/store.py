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
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import pyarrow.parquet as pq
from pydantic import BeforeValidator, TypeAdapter, ValidationError

from benchmarks.flat import joined, kept_rows, stamps_of
from benchmarks.record import OUTCOMES, RunRecord
from benchmarks.settings import leaves
from embedcache.outputs.leftovers import clear_leftovers, is_half_written
from embedcache.outputs.places import check_folder
from embedcache.outputs.writing import is_empty_folder, new_file, new_folder
from heads import export
from heads.export import Canary
from heads.trained import TrainedHead


def _of_one_name(found: Any) -> Any:
    """A record whose notes stand under `warnings` too, as some were written, with all of them under `notes`."""
    if not isinstance(found, dict) or "warnings" not in found:
        return found
    rest = {name: value for name, value in found.items() if name not in ("warnings", "notes")}
    given = [found["warnings"], found.get("notes", [])]
    return rest | {
        "notes": [note for each in given for note in each] if all(isinstance(e, list) for e in given) else None
    }


_RECORD: TypeAdapter[RunRecord] = TypeAdapter(Annotated[RunRecord, BeforeValidator(_of_one_name)])
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
            outcomes[list(OUTCOMES)].to_parquet(partial / "outcomes.parquet", index=False)
            (partial / "record.json").write_bytes(_RECORD.dump_json(record, indent=1))
    except FileExistsError:
        if not is_finished(store, record.key):  # else another process has finished the same run meanwhile
            raise
    return folder


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
        StoreError: the file is missing or damaged, or the role has no rows.
    """
    path = run_folder(store, key) / "outcomes.parquet"
    try:
        rows = pd.read_parquet(path, columns=list(OUTCOMES), filters=[("role", "==", role)])
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


def count_runs(store: Path, split: str) -> tuple[int, tuple[str, ...]]:
    """How many runs of the store were evaluated on the rows of a split, and the keys of unreadable records.

    The hash of a split names its images and their roles, so runs of several caches of the same images count together.
    """
    paths, stamps = _records(store)
    kept = kept_rows(store / "records.parquet", stamps, ["split"])
    told = {} if kept is None else dict(zip(kept["key"].to_pylist(), kept["split"].to_pylist(), strict=True))
    splits = {key: told.get(key) or _split_of(paths[key], written) for key, (written, _) in stamps.items()}
    unreadable = tuple(key for key, found in splits.items() if found is None)
    return sum(found == split for found in splits.values()), unreadable


@lru_cache(maxsize=100_000)
def _split_of(path: Path, _written: int) -> str | None:
    """The split of the record in a file as it was written at a time; None where it cannot be read."""
    try:
        return str(json.loads(path.read_bytes())["data"]["split"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def read_records(store: Path) -> pd.DataFrame:
    """Every run of the store as one flat row: key, settings as `spec.…`, metrics as `select.…` and `test.…`.

    Raises:
        StoreError: a record is damaged or of another version.
    """
    return pd.DataFrame([_flat(read_record(store, key)) for key in _keys(store)])


def _keys(store: Path) -> list[str]:
    found = (path.parent.name for path in store.glob("runs/*/record.json"))
    return sorted(name for name in found if name[0] != "." and not is_half_written(name))


def _records(store: Path) -> tuple[dict[str, Path], dict[str, tuple[int, int]]]:
    """The records of a store and their stamps, by run key."""
    paths = {key: run_folder(store, key) / "record.json" for key in _keys(store)}
    return paths, stamps_of(paths)


def write_records(store: Path) -> tuple[Path, tuple[str, ...]]:
    """Refresh STORE/records.parquet, the flat view of all runs; returns it and the keys that could not be read.

    Only records that are new or were changed are read; the rows of the others are kept.
    """
    _, stamps = _records(store)
    path = store / "records.parquet"
    kept = kept_rows(path, stamps)
    known = set() if kept is None else set(kept["key"].to_pylist())
    rows, unreadable = [], []
    for key in sorted(stamps.keys() - known):
        try:
            rows.append(_settings_as_json(_flat(read_record(store, key))))
        except (StoreError, OSError):
            unreadable.append(key)
    with new_file(path) as partial:
        pq.write_table(joined(kept, pd.DataFrame(rows), stamps), partial)
    return path, tuple(sorted(unreadable))


def _settings_as_json(row: dict[str, Any]) -> dict[str, Any]:
    """A flat row for Parquet, which wants one type: a setting may be a number here and a list there.

    Before they stand in a column, where a row without the setting would make a 7 a 7.0.
    """
    is_setting = {name: name.startswith("spec.") and value is not None for name, value in row.items()}
    return {name: json.dumps(value) if is_setting[name] else value for name, value in row.items()}


def _read(path: Path) -> RunRecord:
    content = path.read_bytes()
    try:
        return _RECORD.validate_json(content)
    except ValidationError as error:
        told = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3])
        raise StoreError(
            f"{path} must be a record of format 1, however: {told} (written by {_writer(content)}). Delete its folder "
            "and run the bench again, or read it with the version that wrote it."
        ) from error


def _writer(content: bytes) -> str:
    """Which version wrote a record, as far as it says so."""
    try:
        tree = json.loads(content)
        return f"frostbench {tree['environment']['frostbench']} in format {tree.get('format_version', 'none')}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return "an unknown version"


def _flat(record: RunRecord) -> dict[str, Any]:
    data = record.data
    row: dict[str, Any] = {"key": record.key, "cache": data.cache, "table": data.table, "split": data.split}
    row |= {"engine": record.engine, "seed": record.seed, "columns": ",".join(data.columns)}
    row |= {"reason": record.reason, "epoch": record.epoch, "seconds": record.seconds}
    row |= {"temperature": record.temperature, "gradient_norm": record.gradient_norm}
    row |= {"members": ",".join(record.members)}
    row |= {f"spec.{path}": value for path, value in leaves(record.spec).items()}
    for role, evaluation in record.evaluations.items():
        row |= {f"{role}.{name}": value for name, value in evaluation.metrics.items()}
        row |= {f"{role}.{path}": value for path, value in leaves(evaluation.calibration).items()}
    return row
