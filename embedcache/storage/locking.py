"""Write locks of a cache: one process, or several parts at once. Locks are released when their process ends."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from frostbench.embedcache.outputs.places import is_refused
from frostbench.embedcache.storage.files import CacheError, write_json
from frostbench.embedcache.storage.own import (
    HOLDER,
    LOCK,
    PART_FILE,
    PARTS,
    check_links,
    check_own,
    entries,
    is_lock,
    remove_passing,
)

PATIENCE = 5
"""Seconds that a part waits for a process that writes the whole cache, whose lock.json lacks `brief`."""


@contextmanager
def write_lock(cache_dir: Path) -> Iterator[None]:
    """Hold the exclusive write lock of a cache, creating its folder if needed. Readers take no lock.

    This is an operating-system lock on the empty file `lock`, which is never removed: otherwise a process waiting for
    the old file and one creating a new file could both proceed. `lock.json` names the holder.

    Raises:
        CacheError: another process, or another extraction in this process, is writing there; or the folder contains
            foreign files where Frostbench writes and deletes (`own.check_own`).
    """
    lock = _lock(cache_dir)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise _refusal(cache_dir) from error
    with _held(lock, cache_dir, brief=False):
        _remove_ended(cache_dir)
        if busy := busy_parts(cache_dir):
            raise CacheError(
                f"A cache is written either by one process or in parts, but {_listed(cache_dir, busy)} "
                f"{'is' if len(busy) == 1 else 'are'} writing {cache_dir}. Wait until they end or stop them, then run "
                "the command again; it resumes where they stopped."
            )
        yield


@contextmanager
def gate(cache_dir: Path) -> Iterator[None]:
    """Hold the lock briefly, to begin, clean up or finish a cache written in parts; wait for other parts that do so.

    Raises:
        CacheError: a process is writing the whole cache.
    """
    lock, refused = _lock(cache_dir), 0
    while not lock.is_locked:
        try:
            lock.acquire(timeout=1)
        except Timeout as error:
            refused = 0 if _is_brief(cache_dir) else refused + 1
            if refused == PATIENCE:
                raise _refusal(cache_dir) from error
    with _held(lock, cache_dir, brief=True):
        yield


@contextmanager
def part_lock(cache_dir: Path, name: str) -> Iterator[None]:
    """Hold the write lock of one part of a cache, while other processes write other parts of the same total.

    `parts/NAME.lock` is locked and `parts/NAME.json` names the holder. Both are created and removed only by the holder
    of `lock`, so no process waits for a deleted file.

    Args:
        cache_dir: the cache; its folder is created if needed.
        name: for example 0-of-3.

    Raises:
        CacheError: the part, parts of another total, or the whole cache are being written.
    """
    with gate(cache_dir):
        _remove_ended(cache_dir)
        _check_beside(cache_dir, name, busy_parts(cache_dir))
        (cache_dir / PARTS).mkdir(exist_ok=True)
        lock = FileLock(_part_file(cache_dir, name), thread_local=False)
        lock.acquire(timeout=0)
        write_json(_part_file(cache_dir, name).with_suffix(".json"), _myself())
    try:
        yield
    finally:
        lock.release()
        _tidy(cache_dir)


def busy_parts(cache_dir: Path) -> list[str]:
    """Return the parts that are being written. The caller must hold `gate` or `write_lock`."""
    names = _part_names(cache_dir, ".lock")
    return [name for name in names if is_lock(_part_file(cache_dir, name)) and _is_taken(_part_file(cache_dir, name))]


def holder(cache_dir: Path) -> str:
    """Describe the process that holds the lock of a cache, according to lock.json."""
    return _who(cache_dir / HOLDER)


def writers(cache_dir: Path) -> str:
    """Describe who is writing a cache, such as "process 7 on there is writing"."""
    parts = [] if (cache_dir / HOLDER).exists() else _part_names(cache_dir, ".json")
    return _listed(cache_dir, parts) if parts else f"{holder(cache_dir)} is writing"


def is_locked(cache_dir: Path) -> bool:
    """Return whether the cache or a part of it is being written."""
    if not is_lock(cache_dir / LOCK):
        return False
    lock = FileLock(cache_dir / LOCK, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except OSError as error:
        # Without write permission the lock cannot be tested; treat the cache as not being written.
        if is_refused(error):
            return False
        raise
    try:
        return bool(busy_parts(cache_dir))
    finally:
        lock.release()


def _lock(cache_dir: Path) -> FileLock:
    check_links(cache_dir)
    if not is_lock(cache_dir / LOCK):
        # Nobody holds the lock, so no file is changing. An existing lock is acquired first, and `_held` then checks.
        check_own(cache_dir)
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        os.close(os.open(cache_dir / LOCK, os.O_CREAT | os.O_RDWR, 0o644))
    except OSError as error:
        raise CacheError(
            f"Changing a cache needs write permission, but {cache_dir} is not writable ({error.strerror}). Change the "
            "permissions or use another folder. Reading and training need no write permission."
        ) from error
    # Not thread-local: an extraction is a generator, which another thread may close.
    return FileLock(cache_dir / LOCK, thread_local=False)


@contextmanager
def _held(lock: FileLock, cache_dir: Path, brief: bool) -> Iterator[None]:
    """Record the holder of an acquired lock in lock.json, and release it at the end."""
    try:
        check_own(cache_dir)
    except CacheError:
        lock.release()
        raise
    try:
        write_json(cache_dir / HOLDER, _myself() | ({"brief": True} if brief else {}))
        yield
    finally:
        (cache_dir / HOLDER).unlink(missing_ok=True)
        lock.release()


def _myself() -> dict[str, object]:
    return {"pid": os.getpid(), "host": socket.gethostname()}


def _is_brief(cache_dir: Path) -> bool:
    try:
        return json.loads((cache_dir / HOLDER).read_text(encoding="utf-8")).get("brief") is True
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


def _refusal(cache_dir: Path) -> CacheError:
    return CacheError(
        f"Only one process at a time may write a cache, but {writers(cache_dir)} {cache_dir}. Wait until it ends "
        "or stop it, then run the command again; it resumes where the other stopped."
    )


def _who(path: Path) -> str:
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        return f"process {tree['pid']} on {tree['host']}"
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return "another process"


def _part_file(cache_dir: Path, name: str) -> Path:
    return cache_dir / PARTS / f"{name}.lock"


def _listed(cache_dir: Path, names: list[str]) -> str:
    holders = [f"{_who(_part_file(cache_dir, one).with_suffix('.json'))} (part {one})" for one in names[:3]]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(holders)}{more} {'is' if len(names) == 1 else 'are'} writing"


def _check_beside(cache_dir: Path, name: str, busy: list[str]) -> None:
    others = [one for one in busy if one == name or one.partition("-of-")[2] != name.partition("-of-")[2]]
    if others:
        raise CacheError(
            f"Parts written at the same time must be different parts of the same total: cannot write {name} while "
            f"{_listed(cache_dir, others)} {cache_dir}. Was a job started twice? Give each process its own "
            "number, or wait until the others end."
        )


def _is_taken(path: Path) -> bool:
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False


def _part_names(cache_dir: Path, ending: str) -> list[str]:
    """Return the parts that have a file with this suffix."""
    found = (name.removeprefix(f"{PARTS}/") for name, kind in entries(cache_dir, PARTS) if kind == "file")
    return sorted(name.removesuffix(ending) for name in found if PART_FILE.fullmatch(name) and name.endswith(ending))


def _remove_ended(cache_dir: Path) -> None:
    """Delete the files of parts that are no longer being written. The caller must hold `lock`."""
    remove_passing(cache_dir, PARTS, busy_parts(cache_dir))


def _tidy(cache_dir: Path) -> None:
    """Delete the files of finished parts; if another process holds the lock, leave them to the next process."""
    lock = _lock(cache_dir)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return
    with _held(lock, cache_dir, brief=True):
        _remove_ended(cache_dir)
