"""The state of a job, from what its worker wrote and whether that still lives; and which jobs stand before it."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from frostbench.app.jobs.files import (
    UNFINISHED,
    JobError,
    Status,
    asked_to_stop,
    is_started,
    read_asked,
    read_end,
    read_status,
)
from frostbench.app.jobs.ids import is_id
from frostbench.app.jobs.mark import is_own
from frostbench.app.jobs.process import is_of_this_boot, is_starting, kill, process_of, seconds_since
from frostbench.app.jobs.words import FORCED, FOREIGN, LOST, RESTARTED, with_finished

FORCE_AFTER_SECONDS = 4.0
"""How long a worker that has nothing to keep may take to stop before it is killed; it ends by itself after 3 s."""


def settled(folder: Path) -> Status:
    """The status of a job, with the end that a worker which is gone cannot tell.

    A worker that does not stop when it is asked to is killed here, but for one that still has to keep a best epoch.
    One that waits and is not of this user and machine is foreign: it is no unfinished job, and stands before none.
    """
    status = _written(folder)
    if status.state in UNFINISHED and not is_started(folder) and not is_own(folder):
        return replace(status, state="foreign", message=FOREIGN)
    if status.state not in UNFINISHED or _lives(folder, status):
        return status
    # It may have written its end and gone between the two looks.
    status = _written(folder)
    if status.state not in UNFINISHED:
        return status
    end = read_end(folder)
    if end is not None:
        return replace(status, state=end.state, message=with_finished(end.message, status), ended=end.ended)
    if asked_to_stop(folder):
        return replace(status, state="cancelled", message=with_finished(FORCED, status), ended=_asked_at(folder))
    return replace(status, state="lost", message=f"{_lost(folder)} {status.message}".strip())


def older_jobs(folder: Path) -> list[Path]:
    """Folders of the jobs that were asked for before this one, oldest first."""
    return sorted(other for other in folder.parent.iterdir() if is_id(other.name) and other.name < folder.name)


def unfinished(folders: list[Path]) -> list[Path]:
    """The jobs that wait or work."""
    return [folder for folder in folders if settled(folder).state in UNFINISHED]


def _written(folder: Path) -> Status:
    """What the worker wrote last; a damaged file is told in words, and the job counts as running until it is gone."""
    try:
        return _ended(folder, (folder / "status.json").stat().st_mtime_ns)
    except FileNotFoundError:
        return Status()
    except _UnendedError as unended:
        return unended.status
    except JobError as error:
        return Status(state="running", message=str(error))


class _UnendedError(Exception):
    """The job has not ended, so what it says must be read anew each time."""

    def __init__(self, status: Status) -> None:
        self.status = status


@lru_cache(maxsize=100_000)
def _ended(folder: Path, _written: int) -> Status:
    """The status of a job that has ended, which nothing changes: thousands of old jobs are read once.

    Raises:
        _UnendedError: it has not, and nothing is kept of it.
    """
    status = read_status(folder) or Status()
    if status.state in UNFINISHED:
        raise _UnendedError(status)
    return status


def _lost(folder: Path) -> str:
    try:
        return LOST if is_of_this_boot(folder) else RESTARTED
    except JobError:
        return LOST


def _lives(folder: Path, status: Status) -> bool:
    if not is_started(folder):
        return True
    try:
        if is_starting(folder):
            return True
        process = process_of(folder)
    except JobError:
        # Without the pid there is nothing to ask or kill; the worker itself still watches for the file cancel.
        return False
    if process is None:
        return False
    asked = read_asked(folder)
    if asked is None or (status.holds and not asked.force) or seconds_since(asked) <= FORCE_AFTER_SECONDS:
        return True
    kill(process)
    return False


def _asked_at(folder: Path) -> float:
    return (folder / "cancel").stat().st_mtime
