"""Names under which results are written until they are whole, and the removal of those that were left behind.

Who writes holds the operating system's lock on the half-written file, or for a folder on an empty file beside it, its
mark. The lock ends with the process, so what is not locked was left by a killed one. A folder without a mark is not
ours.
"""

import fcntl
import os
import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

ENDING = r"\.[0-9]+-[0-9a-f]{8}\.tmp"
"""What follows the name of a file or folder that is not whole: the process and a random number."""
MARK = ".mark"
"""What follows the name of a half-written folder in that of the file by which it is known as ours."""
_HALF = re.compile(rf"(?P<name>.+){ENDING}", re.DOTALL)
_MARKED = re.compile(rf"(?P<name>.+){ENDING}{re.escape(MARK)}", re.DOTALL)


def beside(path: Path) -> Path:
    """A new name beside a path, for what will have its name."""
    return path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


def is_half_written(name: str) -> bool:
    """Whether a file or folder of this name is one that is not whole yet."""
    return _HALF.fullmatch(name) is not None


def create_locked(path: Path) -> int:
    """Make an empty file and lock it; returns the descriptor, which holds the lock until it is closed.

    Raises:
        OSError: it cannot be made.
    """
    while True:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        try:
            # Where a file system has no locks, leftovers are not removed either.
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # taken for a leftover before it was locked


def mark_of(folder: Path) -> Path:
    """The file by which a half-written folder is known as ours."""
    return folder.with_name(folder.name + MARK)


def clear_leftovers(folder: Path, name: str | None = None) -> None:
    """Delete what killed processes left half-written in a folder: of one name, or of any.

    What cannot be deleted stays: it is in nobody's way.
    """
    with os.scandir(folder) as entries:
        plain = sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    for one in plain:
        found = _HALF.fullmatch(one) or _MARKED.fullmatch(one)
        if found and name in (None, found["name"]):
            with suppress(OSError):
                remove_abandoned(folder / one)


def remove_abandoned(path: Path) -> None:
    """Delete a half-written file, or with a mark the folder beside it, unless a process is writing it.

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
    """Whether nobody else holds the lock of a file, which is held from now on."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
