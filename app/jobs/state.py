"""The current state of a job, from its worker's status file and whether the worker is alive."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from frostbench.app.jobs.files import is_started, is_stop_requested, read_end, read_status, read_stop_request
from frostbench.app.jobs.ids import is_id
from frostbench.app.jobs.mark import is_own
from frostbench.app.jobs.messages import FORCED, FOREIGN, LOST, RESTARTED, with_finished
from frostbench.app.jobs.process import is_of_this_boot, is_starting, kill, process_of, seconds_since
from frostbench.app.jobs.records import UNFINISHED, JobError, Status

FORCE_AFTER_SECONDS = 4.0
"""Time after which a worker that should stop and has nothing to save is killed; normally it ends after 3 s."""


def current_status(folder: Path) -> Status:
    """Return the status of a job, with its end filled in if the worker died.

    A worker that does not stop on request is killed here, unless it still has to save a best epoch. A waiting job of
    another user or machine is foreign: it does not count as unfinished, and no job waits for it.
    """
    status = _written_status(folder)
    if status.state in UNFINISHED and not is_started(folder) and not is_own(folder):
        return replace(status, state="foreign", message=FOREIGN)
    if status.state not in UNFINISHED or _is_alive(folder, status):
        return status
    # The worker may have written its end after the first read.
    status = _written_status(folder)
    if status.state not in UNFINISHED:
        return status
    end = read_end(folder)
    if end is not None:
        return replace(status, state=end.state, message=with_finished(end.message, status), ended=end.ended)
    if is_stop_requested(folder):
        cancelled_at = (folder / "cancel").stat().st_mtime
        return replace(status, state="cancelled", message=with_finished(FORCED, status), ended=cancelled_at)
    return replace(status, state="lost", message=f"{_lost_message(folder)} {status.message}".strip())


def older_jobs(folder: Path) -> list[Path]:
    """Return the folders of the jobs submitted before this one, oldest first."""
    return sorted(other for other in folder.parent.iterdir() if is_id(other.name) and other.name < folder.name)


def unfinished(folders: list[Path]) -> list[Path]:
    """Return the jobs that are waiting or running."""
    return [folder for folder in folders if current_status(folder).state in UNFINISHED]


def _written_status(folder: Path) -> Status:
    """Return the last status written; a job with a damaged file counts as running until its worker ends."""
    try:
        return _ended_status(folder, (folder / "status.json").stat().st_mtime_ns)
    except FileNotFoundError:
        return Status()
    except _UnfinishedError as unfinished_error:
        return unfinished_error.status
    except JobError as error:
        return Status(state="running", message=str(error))


class _UnfinishedError(Exception):
    """Raised to keep the status of an unfinished job out of the cache."""

    def __init__(self, status: Status) -> None:
        self.status = status


@lru_cache(maxsize=100_000)
def _ended_status(folder: Path, _modified: int) -> Status:
    """Return the status of a job that has ended, cached because it cannot change.

    Raises:
        _UnfinishedError: the job has not ended.
    """
    status = read_status(folder) or Status()
    if status.state in UNFINISHED:
        raise _UnfinishedError(status)
    return status


def _lost_message(folder: Path) -> str:
    try:
        return LOST if is_of_this_boot(folder) else RESTARTED
    except JobError:
        return LOST


def _is_alive(folder: Path, status: Status) -> bool:
    """Whether a job still waits or its worker is alive; kills a worker that should have stopped."""
    if not is_started(folder):
        return True
    try:
        if is_starting(folder):
            return True
        process = process_of(folder)
    except JobError:
        # Without its pid the worker cannot be checked or killed, but it still watches for the file `cancel`.
        return False
    if process is None:
        return False
    request = read_stop_request(folder)
    if request is None or (status.holds and not request.force) or seconds_since(request) <= FORCE_AFTER_SECONDS:
        return True
    kill(process)
    return False
