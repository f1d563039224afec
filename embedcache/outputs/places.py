"""Whether something can be written at a place; asked before the work whose result goes there."""

import errno
import os
from collections.abc import Collection
from pathlib import Path

from frostbench.embedcache.outputs.leftovers import beside, clear_leftovers

TRIAL = "frostbench-trial"
"""Name of an empty file that is made and deleted to see whether a folder can be written."""


class OutputError(ValueError):
    """Nothing can be written at a place that was named for a result."""


def is_refused(error: OSError) -> bool:
    """Whether an error says that nothing may be written at a place, as on a read-only disk; not that it is full."""
    return error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)


def check_file(out: Path, endings: Collection[str] = (), what: str = "a file", *, makes_folder: bool = False) -> None:
    """Refuse a file that cannot be written, and delete what a killed process left of it half-written.

    Args:
        out: the file; one that exists is replaced when the new one is whole.
        endings: with a dot, in lower case; of which it must have one. None at all takes any.
        what: is written, for the message.
        makes_folder: whether missing folders are made when it is written.

    Raises:
        OutputError: it has another ending; a folder or device is there; its folder is missing or cannot be written.
    """
    if endings and out.suffix.lower() not in endings:
        raise OutputError(f"{what} ends in {' or '.join(endings)}, however: {out.name!r} came. Change its ending.")
    if out.exists() and not out.is_file():
        kind = "a folder" if out.is_dir() else "no regular file"
        raise OutputError(f"{what} is written as a file, however: {out} is {kind}. Choose another name.")
    folder = out.resolve().parent
    if not makes_folder and not folder.is_dir():
        raise OutputError(
            f"{what} goes into a folder that exists, however: {out.parent} does not. Make it first, or choose another."
        )
    _check_writable(folder)
    if folder.is_dir():
        clear_leftovers(folder, out.resolve().name)


def check_new_folder(out: Path, what: str = "an export") -> None:
    """Refuse a folder that is there, or cannot be made.

    Raises:
        FileExistsError: something has this name.
        OutputError: the folder above it cannot be written.
    """
    if os.path.lexists(out):
        raise FileExistsError(f"{what} is a new folder, however: {out} exists. Choose another name or remove it.")
    _check_writable(out.absolute().parent)


def check_folder(folder: Path) -> None:
    """Refuse a folder into which no files can be written; a missing one is made later.

    Raises:
        OutputError: it is no folder, or cannot be made or written.
    """
    _check_writable(folder.absolute())


def _check_writable(folder: Path) -> None:
    """Try to make a file in a folder, or in the nearest one above it that is there."""
    there = next(one for one in (folder, *folder.parents) if os.path.lexists(one))
    if not there.is_dir():
        raise OutputError(f"results go into a folder, however: {there} is none. Choose another place.")
    trial = beside(there / TRIAL)
    try:
        clear_leftovers(there, TRIAL)
        os.close(os.open(trial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        trial.unlink()
    except OSError as error:
        raise OutputError(
            f"results go where files can be made, however: {there} cannot be written ({error.strerror}). Choose "
            "another place, or change who may write there."
        ) from error
