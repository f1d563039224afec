"""The status of a job, as its worker writes it."""

import threading
import time
from dataclasses import replace
from pathlib import Path

from frostbench.app.jobs.ending import write_end
from frostbench.app.jobs.files import UNFINISHED, State, Status, write_json

PERIOD_SECONDS = 0.2
"""Epochs of a small table end faster than anybody reads; the file is written this often."""


class Progress:
    """Keeps status.json of a job; two threads may use it, and after the first end nothing changes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.status = Status()
        self._written = 0.0
        self._lock = threading.RLock()

    def show(self, status: Status, *, soon: bool = False) -> None:
        """Take a new status and write it; soon allows for waiting until the next one, where one was just written."""
        with self._lock:
            if self.status.state not in UNFINISHED:
                return
            self.status = status
            if not soon or time.monotonic() - self._written >= PERIOD_SECONDS:
                write_json(self.folder / "status.json", status)
                self._written = time.monotonic()

    def hold(self, runs: int) -> None:
        """So many runs at work have finished an epoch that is kept when the job is stopped."""
        with self._lock:
            if runs != self.status.holds:
                self.show(replace(self.status, holds=runs))

    def begin(self) -> None:
        """The job's turn has come; a second time changes nothing."""
        with self._lock:
            if self.status.state == "queued":
                self.show(replace(self.status, state="running", began=time.time()))

    def end(self, state: State, message: str) -> None:
        """The job has ended; even a full disk takes this."""
        with self._lock:
            if self.status.state in UNFINISHED:
                self.status = replace(self.status, state=state, message=message, ended=time.time())
                write_end(self.folder, self.status)
