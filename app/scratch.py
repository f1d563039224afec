"""A folder for what the page's server keeps while it runs: what was uploaded, and what is being downloaded."""

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from frostbench.embedcache.outputs.leftovers import lock_now

_OWN = re.compile("[1-9][0-9]*-[0-9a-f]{8}")
"""How these folders are called: by the process and a random number."""


@contextmanager
def scratch_folder(home: Path) -> Iterator[Path]:
    """A folder of this process alone below `home`, removed at the end.

    Those that killed servers left behind are removed at the start. A server holds the operating system's lock on its
    folder, so that one on another machine, or in another container, is not taken for a killed one; where a file system
    has no locks, nothing is removed. Folders that are called otherwise are not touched.

    Raises:
        OSError: the folder cannot be made.
    """
    home.mkdir(parents=True, exist_ok=True)
    _clear(home)
    own, descriptor = _make(home)
    try:
        yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)
        os.close(descriptor)


def _make(home: Path) -> tuple[Path, int]:
    """A new folder and the descriptor that holds its lock."""
    while True:
        own = home / f"{os.getpid()}-{secrets.token_hex(4)}"
        own.mkdir()
        try:
            descriptor = os.open(own, os.O_RDONLY)
        except FileNotFoundError:
            continue  # taken for a leftover before it was locked
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if own.is_dir():
            return own, descriptor
        os.close(descriptor)


def _clear(home: Path) -> None:
    """Remove the folders whose lock nobody holds."""
    for path in sorted(home.iterdir()):
        if not _OWN.fullmatch(path.name):
            continue
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
        except OSError:
            continue  # a link, a file, gone meanwhile, or of somebody else
        try:
            if lock_now(descriptor):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(descriptor)
