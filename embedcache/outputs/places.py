"""Checks that results can be written, made before the work begins."""

import errno
import os
from collections.abc import Collection
from pathlib import Path

from frostbench.embedcache.outputs.leftovers import beside, clear_leftovers

TRIAL = "frostbench-trial"
"""Name of an empty file that is created and deleted to test whether a folder is writable."""


class OutputError(ValueError):
    """A result cannot be written to the requested path."""


def is_refused(error: OSError) -> bool:
    """Return whether an error means that writing is not permitted, as on a read-only disk but not on a full one."""
    return error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)


def check_file(out: Path, endings: Collection[str] = (), what: str = "a file", *, makes_folder: bool = False) -> None:
    """Refuse a file that cannot be written, and delete its partial files left by killed processes.

    Args:
        out: path of the file; an existing file is replaced once the new one is complete.
        endings: allowed suffixes with a dot, in lower case; empty allows any.
        what: noun for the file, for the message.
        makes_folder: whether missing folders are created when the file is written.

    Raises:
        OutputError: the suffix is wrong, the path is not a regular file, or its folder is missing or not writable.
    """
    if endings and out.suffix.lower() not in endings:
        raise OutputError(f"{what} must end in {' or '.join(endings)}, got {out.name!r}. Change its ending.")
    if out.exists() and not out.is_file():
        kind = "a folder" if out.is_dir() else "not a regular file"
        raise OutputError(f"{what} must be a file, but {out} is {kind}. Choose another name.")
    folder = out.resolve().parent
    if not makes_folder and not folder.is_dir():
        raise OutputError(
            f"{what} must be in an existing folder, but {out.parent} does not exist. Create it, or choose another one."
        )
    _check_writable(folder)
    if folder.is_dir():
        clear_leftovers(folder, out.resolve().name)


def check_new_folder(out: Path, what: str = "an export") -> None:
    """Refuse a folder that exists or cannot be created.

    Raises:
        FileExistsError: the path exists.
        OutputError: its parent folder is not writable.
    """
    if os.path.lexists(out):
        raise FileExistsError(f"{what} must be a new folder, but {out} exists. Choose another name or remove it.")
    _check_writable(out.absolute().parent)


def check_folder(folder: Path) -> None:
    """Refuse a folder that is not writable; a missing folder is created later.

    Raises:
        OutputError: the path is not a folder, or cannot be created or written.
    """
    _check_writable(folder.absolute())


def _check_writable(folder: Path) -> None:
    """Try to create a file in a folder, or in its nearest existing parent."""
    existing = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not existing.is_dir():
        raise OutputError(
            f"results must be written into a folder, but {existing} is not a folder. Choose another path."
        )
    trial = beside(existing / TRIAL)
    try:
        clear_leftovers(existing, TRIAL)
        os.close(os.open(trial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        trial.unlink()
    except OSError as error:
        raise OutputError(
            f"results must be written into a writable folder, but {existing} cannot be written ({error.strerror}). "
            "Choose another folder, or change its permissions."
        ) from error
