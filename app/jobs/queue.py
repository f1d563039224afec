"""The queue of a store: its jobs in order, and starting their workers.

A waiting job consists of files only. Every process that adds, begins, cancels, ends or watches a job calls `advance`.
It starts the workers of the jobs whose turn has come, and the worker of the next in line, which waits for one of them
to end. So there is no scheduler that could die, and a hundred waiting jobs take one process.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from filelock import FileLock, Timeout

from frostbench.app.jobs.files import is_started, write_json
from frostbench.app.jobs.ids import is_id
from frostbench.app.jobs.mark import read_own
from frostbench.app.jobs.plugins import disallowed_plugins
from frostbench.app.jobs.process import start
from frostbench.app.jobs.records import UNFINISHED, JobError, Request, Status
from frostbench.app.jobs.state import current_status, older_jobs, unfinished

Plugins = Sequence[str | Path]
MOST_UNFINISHED = 100
"""Maximum number of unfinished jobs in a store."""
PATIENCE_SECONDS = 20.0
"""How long to wait for the lock of the queue, which other processes normally hold for milliseconds."""


def job_ids(home: Path) -> list[str]:
    """Return the IDs of the jobs in a folder of jobs, oldest first."""
    return sorted(path.name for path in home.iterdir() if is_id(path.name)) if home.is_dir() else []


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Hold the lock for adding, starting and withdrawing jobs in a folder of jobs; a dying process releases it.

    Raises:
        JobError: another process holds the lock for too long.
        OSError: the folder cannot be written.
    """
    home.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(home / ".lock", timeout=PATIENCE_SECONDS):
            yield
    except Timeout as error:
        raise JobError(
            f"Another process has locked the queue of {home} for more than {PATIENCE_SECONDS:.0f} s; it may be "
            "suspended. Resume or end it, and try again."
        ) from error


def advance(store: Path, plugins: Plugins = ()) -> None:
    """Start the workers of the jobs of a store whose turn has come, and of the next in line.

    Only jobs that this user submitted on this machine are started (`frostbench.app.jobs.mark`). A job that names other
    plugins waits for a page that was started with them, and does not block others.

    Args:
        store: folder of the run store.
        plugins: files that may be executed, as named when the page was started.

    Raises:
        JobError: another process holds the lock of the queue for too long.
        OSError: a file cannot be written, or no process can be started.
    """
    home = Path(store) / "jobs"
    if home.is_dir() and waiting(home):
        with locked(home):
            start_due(home, plugins)


def waiting(home: Path) -> list[Path]:
    """Return the unfinished jobs in a folder of jobs that have no worker yet, oldest first."""
    return [folder for folder in unfinished([home / name for name in job_ids(home)]) if not is_started(folder)]


def start_due(home: Path, plugins: Plugins = ()) -> None:
    """Start the workers as `advance` does, but with the lock already held."""
    ahead = 0
    for folder in unfinished([home / name for name in job_ids(home)]):
        if not is_started(folder):
            request = _startable(folder)
            if request is None or disallowed_plugins(request, plugins):
                continue
            # With `slots` older jobs ahead, this one is the next in line; with fewer, it is its turn.
            if ahead <= request.slots:
                start(folder, request, plugins)
        ahead += 1


def _startable(folder: Path) -> Request | None:
    """Return the request of a waiting job, or None if it is foreign or was just marked as failed."""
    try:
        request = read_own(folder)
        if request is not None and request.folder and not Path(request.folder).is_dir():
            raise JobError(
                f"The folder {request.folder}, from which the job was submitted, no longer exists. Submit the job "
                "again from where its files are now."
            )
        return request
    except JobError as error:
        write_json(folder / "status.json", Status(state="failed", message=str(error)))
        return None


def jobs_ahead(folder: Path, plugins: Plugins) -> list[Path]:
    """Return the older jobs that a job waits for: started ones, and own waiting ones that need no other plugins."""
    return [other for other in unfinished(older_jobs(folder)) if is_started(other) or _is_due(other, plugins)]


def _is_due(folder: Path, plugins: Plugins) -> bool:
    try:
        request = read_own(folder)
    except JobError:
        return False
    return request is not None and not disallowed_plugins(request, plugins)


def withdraw(folder: Path, message: str) -> bool:
    """Cancel a job if no worker was started for it; return whether it was cancelled.

    Raises:
        JobError: another process holds the lock of the queue for too long.
        OSError: the folder cannot be written.
    """
    with locked(folder.parent):
        status = current_status(folder)
        if status.state not in (*UNFINISHED, "foreign") or is_started(folder):
            return False
        write_json(folder / "status.json", replace(status, state="cancelled", message=message))
        return True
