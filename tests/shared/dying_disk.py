"""A process that is killed, or a disk that gets full, before one chosen operation on files."""

import errno
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PLACES = [
    (os, "open"),
    (os, "fsync"),
    (os, "mkdir"),
    (os, "scandir"),
    (Path, "open"),
    (Path, "write_bytes"),
    (Path, "mkdir"),
    (Path, "rename"),
    (Path, "replace"),
    (Path, "unlink"),
    (Path, "rmdir"),
    (shutil, "copyfile"),
    (shutil, "rmtree"),
]
OPEN = os.open
REMOVALS = {"unlink", "rmdir", "rmtree", "scandir"}
"""What goes on working where the disk is full."""


class Dying:
    """Counts operations, and ends the process, or the disk, before the chosen one."""

    def __init__(self, at: int, full: bool) -> None:
        self.at, self.full, self.count = at, full, 0

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for owner, name in PLACES:
            if not (self.full and name in REMOVALS):
                monkeypatch.setattr(owner, name, self._before(getattr(owner, name)))

    def _before(self, real: Any) -> Any:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            if self.full and real is OPEN and not arguments[1] & os.O_CREAT:
                return real(*arguments, **options)
            self.count += 1
            if self.count == self.at and not self.full:
                os.kill(os.getpid(), signal.SIGKILL)
            # A disk that is full stays so.
            if self.count >= self.at and self.full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*arguments, **options)

        return wrapped


def dies(work: Callable[[], object], at: int) -> bool:
    """Do something in a fork that is killed before an operation; whether it was, and did not come to its end."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            Dying(at, full=False).patch(pytest.MonkeyPatch())
            work()
            status = 0
        finally:
            os._exit(status)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def runs_full(work: Callable[[], object], at: int) -> bool:
    """Do something while the disk gets full at an operation; whether that stopped it."""
    with pytest.MonkeyPatch.context() as patch:
        Dying(at, full=True).patch(patch)
        try:
            work()
        except (OSError, ValueError) as error:
            if os.strerror(errno.ENOSPC) not in str(error):
                raise
            return True
    return False
