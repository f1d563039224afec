"""What is known of runs that gave no head: they are not in the store, and the next start tries them again.

    STORE/failed/KEY.json        why

A bench that tunes its rows must tell a setting that cannot win from one that was not trained yet.
"""

import json
from pathlib import Path

from frostbench.benchmarks.runs.store import StoreError, is_finished
from frostbench.embedcache.storage.files import write_json


def mark_failed(store: Path, key: str, message: str) -> None:
    """Write down that a run gave no head, and why."""
    path = _path(store, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"message": message})


def failure_of(store: Path, key: str) -> str | None:
    """Why a run gave no head; None where it has one, or was never tried.

    Raises:
        StoreError: the mark is damaged.
    """
    path = _path(store, key)
    if is_finished(store, key) or not path.is_file():
        return None
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["message"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(f"the mark of a failed run must be readable, however: {path} is not. Delete it.") from error


def _path(store: Path, key: str) -> Path:
    return store / "failed" / f"{key}.json"
