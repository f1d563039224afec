"""Temporary folder of the page's server, for uploads and for downloads in progress."""

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
"""Name of a scratch folder: process ID and a random number."""


@contextmanager
def scratch_folder(home: Path) -> Iterator[Path]:
    """Make a folder for this process below `home`, and remove it at the end.

    Folders left behind by killed servers are removed at the start. A running server holds a file lock on its folder,
    which also works across machines and containers; on a file system without locks nothing is removed. Folders with
    other names are never touched.

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
    """Make a new folder; return it and the descriptor that holds its lock."""
    while True:
        own = home / f"{os.getpid()}-{secrets.token_hex(4)}"
        own.mkdir()
        try:
            descriptor = os.open(own, os.O_RDONLY)
        except FileNotFoundError:
            continue  # removed by another server before it was locked
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if own.is_dir():
            return own, descriptor
        os.close(descriptor)


def _clear(home: Path) -> None:
    """Remove scratch folders that no process has locked."""
    for path in sorted(home.iterdir()):
        if not _OWN.fullmatch(path.name):
            continue
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
        except OSError:
            continue  # a link, a file, already gone, or another user's
        try:
            if lock_now(descriptor):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(descriptor)
