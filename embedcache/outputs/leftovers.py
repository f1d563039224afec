"""Temporary names of unfinished files and folders, and removal of those left behind by killed processes.

The writing process holds the operating system's lock on the partial file or, for a folder, on an empty marker file
beside it. The lock ends with the process, so an unlocked partial file was left by a killed one. Folders without a
marker are never touched.
"""

import fcntl
import os
import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

ENDING = r"\.[0-9]+-[0-9a-f]{8}\.tmp"
"""Suffix of a partial file or folder, as a regular expression: the process id and a random number."""
MARK = ".mark"
"""Suffix of the marker file of a partial folder."""
_HALF = re.compile(rf"(?P<name>.+){ENDING}", re.DOTALL)
_MARKED = re.compile(rf"(?P<name>.+){ENDING}{re.escape(MARK)}", re.DOTALL)


def beside(path: Path) -> Path:
    """Return a temporary name beside a path."""
    return path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


def is_half_written(name: str) -> bool:
    """Return whether the name is that of a partial file or folder."""
    return _HALF.fullmatch(name) is not None


def create_locked(path: Path) -> int:
    """Create an empty file, lock it, and return the descriptor, which holds the lock until it is closed.

    Raises:
        OSError: the file cannot be created.
    """
    while True:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        try:
            # On file systems without locks, leftovers are not removed either.
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # deleted as a leftover by another process before it was locked


def mark_of(folder: Path) -> Path:
    """Return the marker file of a partial folder."""
    return folder.with_name(folder.name + MARK)


def clear_leftovers(folder: Path, name: str | None = None) -> None:
    """Delete partial files and folders of killed processes, for one target name or for all.

    Files that cannot be deleted are ignored.
    """
    with os.scandir(folder) as entries:
        files = sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    for file in files:
        match = _HALF.fullmatch(file) or _MARKED.fullmatch(file)
        if match and name in (None, match["name"]):
            with suppress(OSError):
                remove_abandoned(folder / file)


def remove_abandoned(path: Path) -> None:
    """Delete a partial file, or a marker with its folder, unless a process is writing it.

    Raises:
        OSError: it cannot be deleted.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        if not lock_now(descriptor):
            return
        if _MARKED.fullmatch(path.name):
            half = path.with_name(path.name.removesuffix(MARK))
            if half.is_dir() and not half.is_symlink():
                shutil.rmtree(half)
        path.unlink()
    finally:
        os.close(descriptor)


def lock_now(descriptor: int) -> bool:
    """Try to lock a file, and return whether that succeeded."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
