"""Who writes a cache: one process alone, or several parts at once; locks end with their process, however that ends."""

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
"""Seconds that a part waits for a process that does not say that it will be brief."""


@contextmanager
def write_lock(cache_dir: Path) -> Iterator[None]:
    """Be the only one who writes a cache; its folder is made if needed. Readers take no lock.

    The lock is the operating system's on the empty file `lock`, which stays there: removing it would let a process that
    waits for the old file and one that makes a new one both go on. `lock.json` says who holds it.

    Raises:
        CacheError: another process, or another extraction of this process, is writing there; or the folder holds what
            is not ours where we write and delete (`own.check_own`).
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
                f"a cache is written by one process, or by parts of it, however: {_listed(cache_dir, busy)} "
                f"{'is' if len(busy) == 1 else 'are'} writing {cache_dir}. Wait for their end, or stop them, and run "
                "the command again: it goes on from there."
            )
        yield


@contextmanager
def gate(cache_dir: Path) -> Iterator[None]:
    """Be the only part that begins, tidies or ends a cache, after waiting for other parts that do.

    Raises:
        CacheError: a process is there that writes the whole cache.
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
    """Be the only one who writes a part of a cache, beside others who write other parts of as many.

    `parts/NAME.lock` is locked, and `parts/NAME.json` says by whom. Such files are made and removed only by who holds
    `lock`, so nobody waits for a file that is gone.

    Args:
        cache_dir: the cache; its folder is made if needed.
        name: such as 0-of-3.

    Raises:
        CacheError: the part is being written, or parts of another number are, or the whole cache is.
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
    """The parts that are being written; to be asked by who holds the gate or the whole cache."""
    names = _part_names(cache_dir, ".lock")
    return [name for name in names if is_lock(_part_file(cache_dir, name)) and _is_taken(_part_file(cache_dir, name))]


def holder(cache_dir: Path) -> str:
    """Who says that it writes a cache, in words."""
    parts = _part_names(cache_dir, ".json")
    if parts and not (cache_dir / HOLDER).exists():
        return _listed(cache_dir, parts)
    return _who(cache_dir / HOLDER)


def is_locked(cache_dir: Path) -> bool:
    """Whether somebody writes a cache now, or a part of it."""
    if not is_lock(cache_dir / LOCK):
        return False
    lock = FileLock(cache_dir / LOCK, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except OSError as error:
        # Who may not write here cannot ask; the cache of somebody else is looked at as it is.
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
        # No process of ours is there, so what is looked at stands still. Others wait until they hold the lock.
        check_own(cache_dir)
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        os.close(os.open(cache_dir / LOCK, os.O_CREAT | os.O_RDWR, 0o644))
    except OSError as error:
        raise CacheError(
            f"a cache is changed where files can be written, however: {cache_dir} cannot be ({error.strerror}). Change "
            "who may write there, or name another folder; reading and training need no writing."
        ) from error
    # An extraction is a generator, and may be closed by another thread than it was begun by.
    return FileLock(cache_dir / LOCK, thread_local=False)


@contextmanager
def _held(lock: FileLock, cache_dir: Path, brief: bool) -> Iterator[None]:
    """Say who holds a lock that was taken, and give it back at the end."""
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
        f"one process at a time may write a cache, however: {holder(cache_dir)} is writing {cache_dir}. Wait for "
        "its end, or stop it, and run the command again: it goes on from there."
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
    told = [f"{_who(_part_file(cache_dir, one).with_suffix('.json'))} (part {one})" for one in names[:3]]
    return ", ".join(told) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _check_beside(cache_dir: Path, name: str, busy: list[str]) -> None:
    others = [one for one in busy if one == name or one.partition("-of-")[2] != name.partition("-of-")[2]]
    if others:
        raise CacheError(
            f"parts that are written at once must be different ones of the same number, however: {name} was to be "
            f"written and {_listed(cache_dir, others)} is writing {cache_dir}. Was a job started twice? Give each "
            "process a number of its own, or wait for the end of the others."
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
    """The parts that have a file of this ending."""
    found = (name.removeprefix(f"{PARTS}/") for name, kind in entries(cache_dir, PARTS) if kind == "file")
    return sorted(name.removesuffix(ending) for name in found if PART_FILE.fullmatch(name) and name.endswith(ending))


def _remove_ended(cache_dir: Path) -> None:
    """Delete the files of parts that are not written any more; only who holds `lock` may."""
    remove_passing(cache_dir, PARTS, busy_parts(cache_dir))


def _tidy(cache_dir: Path) -> None:
    """Delete the files of ended parts, unless others are at it: then the next one does."""
    lock = _lock(cache_dir)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return
    with _held(lock, cache_dir, brief=True):
        _remove_ended(cache_dir)
