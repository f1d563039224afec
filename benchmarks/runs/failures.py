"""Marks failed runs, so that a tuned bench can distinguish failed settings from settings that were not trained yet.

    STORE/failed/KEY.json        reason of the failure

The next start of the bench trains failed runs again.
"""

import json
from pathlib import Path

from frostbench.benchmarks.runs.store import StoreError, is_finished
from frostbench.embedcache.storage.files import write_json


def mark_failed(store: Path, key: str, message: str) -> None:
    """Record that a run failed, and why."""
    path = _path(store, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"message": message})


def failure_of(store: Path, key: str) -> str | None:
    """Return why a run failed, or None if it is finished or was never tried.

    Raises:
        StoreError: the file is damaged.
    """
    path = _path(store, key)
    if is_finished(store, key) or not path.is_file():
        return None
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["message"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(
            f"Cannot read {path}, which records a failed run. Delete the file; the run will then be trained again."
        ) from error


def failure_since(store: Path, key: str, began: float) -> str | None:
    """Return why a run failed at or after a time of the store's file system, or None; see `failure_of`."""
    try:
        is_old = _path(store, key).stat().st_mtime < began
    except FileNotFoundError:
        return None
    return None if is_old else failure_of(store, key)


def _path(store: Path, key: str) -> Path:
    return store / "failed" / f"{key}.json"
