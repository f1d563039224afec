"""Summarises all runs of a store: their number by split, and one flat row per run."""

import json
import os
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from frostbench.benchmarks.runs.flat import joined, kept_rows, stamps_of
from frostbench.benchmarks.runs.record import RunRecord
from frostbench.benchmarks.runs.store import StoreError, read_record, run_folder
from frostbench.benchmarks.settings.parsing import leaves
from frostbench.embedcache.outputs.leftovers import is_half_written
from frostbench.embedcache.outputs.writing import new_file


def count_runs(store: Path, split: str) -> tuple[int, tuple[str, ...]]:
    """Count the runs of the store that were evaluated on a split; also return the keys of unreadable records.

    The hash of a split covers its images and their roles, so runs on several caches of the same images are counted
    together.
    """
    paths, stamps = _records(store)
    kept = kept_rows(store / "records.parquet", stamps, ["split"])
    known = {} if kept is None else dict(zip(kept["key"].to_pylist(), kept["split"].to_pylist(), strict=True))
    splits = {key: known.get(key) or _split_of(paths[key], written) for key, (written, _) in stamps.items()}
    unreadable = tuple(key for key, found in splits.items() if found is None)
    return sum(found == split for found in splits.values()), unreadable


@lru_cache(maxsize=100_000)
def _split_of(path: Path, _written: int) -> str | None:
    """Return the split hash of a record, or None if it cannot be read; the time of writing is part of the cache key."""
    try:
        return str(json.loads(path.read_bytes())["data"]["split"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def read_records(store: Path) -> pd.DataFrame:
    """Return every run of the store as a flat row: key, settings as `spec.…`, metrics as `select.…` and `test.…`.

    Rows of records that have not changed since records.parquet was written come from there; the others are read.

    Raises:
        StoreError: a new or changed record is damaged or of another version.
    """
    table, problems = readable_records(store, record_stamps(store))
    if problems:
        raise StoreError(next(iter(problems.values())))
    flat: pd.DataFrame = table.to_pandas()
    for name in (name for name in flat if str(name).startswith("spec.")):
        flat[name] = [json.loads(value) if isinstance(value, str) else None for value in flat[name]]
    return flat


def record_stamps(store: Path) -> dict[str, tuple[int, int]]:
    """Return the modification time (ns since 1970) and the size in bytes of each record, by name of its folder.

    A folder that no run can have, such as a copy made by a file manager, is included: `readable_records` says so.
    """
    return stamps_of({key: f"{store}/runs/{key}/record.json" for key in _folders(store)})


def readable_records(
    store: Path, stamps: Mapping[str, tuple[int, int]], wanted: Collection[str] | None = None
) -> tuple[pa.Table, dict[str, str]]:
    """Return the flat rows of the records that can be read, and what is wrong with the others, by key.

    Settings are JSON text. Rows come from records.parquet as far as their records have not changed.

    Args:
        store: the run store.
        stamps: its `record_stamps`.
        wanted: keys of the records to read; None means all.
    """
    stamps = stamps if wanted is None else {key: stamps[key] for key in wanted}
    kept = kept_rows(store / "records.parquet", stamps)
    known = set() if kept is None else set(kept["key"].to_pylist())
    rows, problems = [], {}
    for key in sorted(stamps.keys() - known):
        try:
            rows.append(_settings_as_json(_flat(_own_record(store, key))))
        except (StoreError, OSError) as error:
            problems[key] = str(error)
    return joined(kept, pd.DataFrame(rows), stamps), problems


def _own_record(store: Path, key: str) -> RunRecord:
    """Read the record in the folder of a run.

    Raises:
        StoreError: it cannot be read, or belongs to another run.
    """
    record = read_record(store, key)
    if record.key != key:
        raise StoreError(
            f"The folder of a run must have the run's key as its name, but {run_folder(store, key)} holds run "
            f"{record.key}. Is it a copy? Move it out of the store."
        )
    return record


def _folders(store: Path) -> list[str]:
    try:
        with os.scandir(store / "runs") as entries:
            names = [entry.name for entry in entries]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(name for name in names if name[0] != "." and not is_half_written(name))


def _records(store: Path) -> tuple[dict[str, Path], dict[str, tuple[int, int]]]:
    """Return the record paths of a store and their stamps, by run key."""
    stamps = record_stamps(store)
    return {key: store / "runs" / key / "record.json" for key in stamps}, stamps


def write_records(store: Path) -> tuple[Path, tuple[str, ...]]:
    """Refresh STORE/records.parquet, the flat view of all runs; return its path and the keys of unreadable records.

    Only records that are new or changed are read; the other rows are kept.
    """
    path = store / "records.parquet"
    table, problems = readable_records(store, record_stamps(store))
    with new_file(path) as partial:
        pq.write_table(table, partial)
    return path, tuple(sorted(problems))


def _settings_as_json(row: dict[str, Any]) -> dict[str, Any]:
    """Encode the settings of a flat row as JSON, since a Parquet column has one type and settings may have several.

    This happens before rows become columns, where a missing value would turn 7 into 7.0.
    """
    is_setting = {name: name.startswith("spec.") and value is not None for name, value in row.items()}
    return {name: json.dumps(value) if is_setting[name] else value for name, value in row.items()}


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
