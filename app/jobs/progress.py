"""Writing the status of a job in its worker."""

import threading
import time
from dataclasses import replace
from pathlib import Path

from frostbench.app.jobs.ending import write_end
from frostbench.app.jobs.files import write_json
from frostbench.app.jobs.records import UNFINISHED, State, Status

PERIOD_SECONDS = 0.2
"""Minimum time between two writes of the status during short epochs."""


class Progress:
    """Thread-safe writer of a job's status.json; the first final status is never changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.status = Status()
        self._written = 0.0
        self._lock = threading.RLock()

    def show(self, status: Status, *, soon: bool = False) -> None:
        """Set the status and write it, unless `soon` is set and the file was written less than PERIOD_SECONDS ago."""
        with self._lock:
            if self.status.state not in UNFINISHED:
                return
            self.status = status
            if not soon or time.monotonic() - self._written >= PERIOD_SECONDS:
                write_json(self.folder / "status.json", status)
                self._written = time.monotonic()

    def hold(self, runs: int) -> None:
        """Set the number of current runs whose best epoch is kept if the job is stopped."""
        with self._lock:
            if runs != self.status.holds:
                self.show(replace(self.status, holds=runs))

    def begin(self) -> None:
        """Set the state to running if it is queued."""
        with self._lock:
            if self.status.state == "queued":
                self.show(replace(self.status, state="running", began=time.time()))

    def end(self, state: State, message: str) -> None:
        """Write the final status, even if the disk is full."""
        with self._lock:
            if self.status.state in UNFINISHED:
                self.status = replace(self.status, state=state, message=message, ended=time.time())
                write_end(self.folder, self.status)
