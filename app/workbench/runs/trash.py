"""The trash of a run store: runs are moved there, can be put back, and are deleted when it is emptied.

    STORE/trash/BATCH/KEY/…      the folder of a run as it was; a batch is what was deleted together

Only files that Frostbench writes into the folder of a run are ever deleted, and only if nothing else lies beside them.
"""

import os
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from frostbench.benchmarks.runs.store import OUTCOMES_FILE, run_folder
from frostbench.embedcache.storage.own import entries, is_plain, is_real_folder
from frostbench.heads.bundle.removal import BUNDLE_FILE

TRASH = "trash"
PATIENCE_SECONDS = 10.0
_BATCH = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9]{6}-[0-9a-f]{4}")
_RECORD = "record.json"


class TrashError(ValueError):
    """Runs that cannot be moved to the trash, put back or deleted."""


@dataclass(frozen=True)
class Batch:
    """Runs that were deleted together.

    Attributes:
        id: name of its folder: time in UTC and a random number.
        deleted: time of the deletion, as ISO 8601 text in UTC.
        keys: run keys.
        bytes: size of their files.
    """

    id: str
    deleted: str
    keys: tuple[str, ...]
    bytes: int


def move(store: Path, keys: Sequence[str]) -> str:
    """Move runs to the trash together; return the ID of the batch.

    Raises:
        TrashError: a run is not in the store, its folder is a link, or a folder cannot be moved.
    """
    folders = [run_folder(store, key) for key in keys]
    for folder in folders:
        if not is_real_folder(folder) or not is_plain(folder / _RECORD):
            raise TrashError(f"Only runs of the store can be deleted, but {folder} is not one. Reload the page.")
    with _locked(store):
        batch = f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}-{secrets.token_hex(2)}"
        (store / TRASH / batch).mkdir(parents=True)
        for folder in folders:
            folder.rename(store / TRASH / batch / folder.name)
    return batch


def put_back(store: Path, batch: str) -> tuple[int, list[str]]:
    """Put the runs of a batch back; return their number, and the keys of runs that the store has again meanwhile.

    Raises:
        TrashError: there is no such batch, or a folder cannot be moved.
    """
    with _locked(store):
        folder, moved, taken = _batch_folder(store, batch), 0, []
        for name, _ in _folders(folder):
            target = run_folder(store, name)
            if os.path.lexists(target):
                taken.append(name)
                continue
            target.parent.mkdir(exist_ok=True)
            (folder / name).rename(target)
            moved += 1
        _remove_if_empty(folder)
    return moved, taken


def empty(store: Path, batches: Sequence[str]) -> tuple[int, list[str]]:
    """Delete the runs of batches; return their number, and why others were left.

    Raises:
        TrashError: there is no such batch, or a file cannot be deleted.
    """
    deleted, left = 0, []
    with _locked(store):
        for folder in [_batch_folder(store, batch) for batch in batches]:
            for name, kind in _folders(folder):
                strange = name if kind != "folder" else _foreign(folder / name)
                if strange is None:
                    _delete(folder / name)
                    deleted += 1
                else:
                    left.append(f"{folder / name} was left, because Frostbench did not write {strange}.")
            _remove_if_empty(folder)
    return deleted, left


def batches_of(store: Path) -> list[Batch]:
    """Return what is in the trash of a store, the newest first."""
    found = []
    for name, kind in entries(store, TRASH, deep=False):
        batch = Path(name).name
        if kind == "folder" and _BATCH.fullmatch(batch):
            keys = tuple(key for key, kind in _folders(store / name) if kind == "folder")
            deleted = datetime.strptime(batch[:15], "%Y%m%d-%H%M%S").replace(tzinfo=UTC).isoformat()
            found.append(Batch(batch, deleted, keys, sum(map(_size, (store / name / key for key in keys)))))
    return sorted((batch for batch in found if batch.keys), key=lambda batch: batch.id, reverse=True)


@contextmanager
def _locked(store: Path) -> Iterator[None]:
    """Hold the lock of the trash, which must be a real folder."""
    path = store / TRASH
    if os.path.lexists(path) and not is_real_folder(path):
        raise TrashError(f"The trash of a store must be a folder, but {path} is not. Move it elsewhere.")
    try:
        path.mkdir(exist_ok=True)
        with FileLock(path / ".lock", timeout=PATIENCE_SECONDS):
            yield
    except Timeout as error:
        raise TrashError(f"Another process has been using {path} for {PATIENCE_SECONDS:g} s. Try again.") from error
    except OSError as error:
        raise TrashError(
            f"Deleting runs moves files within {store}, but {error.filename or path} cannot be changed "
            f"({error.strerror}). Change the permissions."
        ) from error


def _batch_folder(store: Path, batch: str) -> Path:
    folder = store / TRASH / batch
    if not _BATCH.fullmatch(batch) or not is_real_folder(folder):
        raise TrashError(f"The trash of {store} has no batch {batch[:60]!r}. Reload the page.")
    return folder


def _folders(batch: Path) -> Iterable[tuple[str, str]]:
    return list(entries(batch, deep=False))


def _foreign(folder: Path) -> str | None:
    """Return the first path in the folder of a run that Frostbench did not write, or None."""
    return next((name for name, kind in entries(folder) if not _is_of_run(name, kind)), None)


def _is_of_run(name: str, kind: str) -> bool:
    top, _, inside = name.partition("/")
    if top != "head":
        return kind == "file" and name in (_RECORD, OUTCOMES_FILE)
    if kind == "folder":
        return inside == "" or re.fullmatch("member-[0-9]+", inside) is not None
    return kind == "file" and BUNDLE_FILE.fullmatch(inside) is not None


def _delete(folder: Path) -> None:
    """Delete the folder of a run; the record goes last, so that an interrupted deletion can be completed."""
    inside = sorted(entries(folder), key=lambda one: (one[0] == _RECORD, -one[0].count("/")))
    for name, kind in inside:
        if kind == "file":
            (folder / name).unlink()
    for name, kind in inside:
        if kind == "folder":
            (folder / name).rmdir()
    folder.rmdir()


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _size(folder: Path) -> int:
    return sum((folder / name).lstat().st_size for name, kind in entries(folder) if kind == "file")
