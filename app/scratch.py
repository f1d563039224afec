"""A folder for what the page's server keeps while it runs: what was uploaded, and what is being downloaded."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil


@contextmanager
def scratch_folder(home: Path) -> Iterator[Path]:
    """A folder of this process alone below `home`, removed at the end.

    Those that processes left behind which are gone, killed or crashed, are removed at the start. They are called by the
    number of their process; nothing else is touched.

    Raises:
        OSError: the folder cannot be made.
    """
    for left in _left_behind(home):
        shutil.rmtree(left, ignore_errors=True)
    own = home / str(os.getpid())
    own.mkdir(parents=True, exist_ok=True)
    try:
        yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _left_behind(home: Path) -> list[Path]:
    if not home.is_dir():
        return []
    others = {str(pid) for pid in psutil.pids()} - {str(os.getpid())}
    folders = [path for path in home.iterdir() if path.is_dir() and not path.is_symlink()]
    return [path for path in folders if re.fullmatch("[1-9][0-9]*", path.name) and path.name not in others]
