"""The queue of a store: which jobs there are, whose turn it is, and starting their workers.

A job that waits is files alone. Whoever adds, begins, cancels, ends or watches a job calls `advance`, which starts the
workers of the jobs whose turn has come, and that of the next in line: it waits beside them, and takes over when they
end, in whatever way. So there is no scheduler that could die, and a hundred waiting jobs cost one process.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from filelock import FileLock, Timeout

from frostbench.app.jobs.files import UNFINISHED, JobError, Request, Status, is_started, write_json
from frostbench.app.jobs.ids import is_id
from frostbench.app.jobs.mark import read_own
from frostbench.app.jobs.plugged import unnamed
from frostbench.app.jobs.process import start
from frostbench.app.jobs.state import older_jobs, settled, unfinished

Plugins = Sequence[str | Path]
MOST_UNFINISHED = 100
"""Jobs of a store that may wait or train at a time."""
PATIENCE_SECONDS = 20.0
"""How long the queue may be held by another process, which needs milliseconds."""


def ids(home: Path) -> list[str]:
    """IDs of the jobs in a folder of jobs, oldest first."""
    return sorted(path.name for path in home.iterdir() if is_id(path.name)) if home.is_dir() else []


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Be the only one who adds jobs to a folder of jobs, starts or withdraws them; the lock ends with its process.

    Raises:
        JobError: another process holds it for too long.
        OSError: the folder cannot be written.
    """
    home.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(home / ".lock", timeout=PATIENCE_SECONDS):
            yield
    except Timeout as error:
        raise JobError(
            f"a queue is held for moments, however: another process has held that of {home} for {PATIENCE_SECONDS:.0f} "
            "s. Is one suspended? Let it go on, or end it, and ask again."
        ) from error


def advance(store: Path, plugins: Plugins = ()) -> None:
    """Start the workers of the jobs of a store whose turn has come, and that of the next in line.

    Only jobs that this user asked for on this machine are started (`frostbench.app.jobs.mark`). One that names another
    plugin than those given waits for a page that was started with it, and holds nobody up.

    Args:
        store: folder of the run store.
        plugins: files that may be run as code, as they were named when the page was started.

    Raises:
        JobError: the queue is held for too long.
        OSError: a file cannot be written, or no process can be started.
    """
    home = Path(store) / "jobs"
    if home.is_dir() and waiting(home):
        with locked(home):
            start_due(home, plugins)


def waiting(home: Path) -> list[Path]:
    """The unfinished jobs in a folder of jobs that have no worker yet, oldest first."""
    return [folder for folder in unfinished([home / name for name in ids(home)]) if not is_started(folder)]


def start_due(home: Path, plugins: Plugins = ()) -> None:
    """As `advance`, for whoever holds the lock."""
    ahead = 0
    for folder in unfinished([home / name for name in ids(home)]):
        if not is_started(folder):
            request = _startable(folder)
            if request is None or unnamed(request, plugins):
                continue
            # At most so many older ones are unfinished: it is its turn, or it is the next in line.
            if ahead <= request.slots:
                start(folder, request, plugins)
        ahead += 1


def _startable(folder: Path) -> Request | None:
    """What a waiting job asks for; None where it cannot be started, which is then written down or is not ours to do."""
    try:
        request = read_own(folder)
        if request is not None and request.folder and not Path(request.folder).is_dir():
            raise JobError(
                f"a job works in the folder that it was asked for from, however: {request.folder} is gone. Ask for it "
                "again from where its files are now."
            )
        return request
    except JobError as error:
        write_json(folder / "status.json", Status(state="failed", message=str(error)))
        return None


def before(folder: Path, plugins: Plugins) -> list[Path]:
    """The older jobs that one waits for: those at work, and those that wait and may be started with these plugins."""
    return [other for other in unfinished(older_jobs(folder)) if is_started(other) or _is_due(other, plugins)]


def _is_due(folder: Path, plugins: Plugins) -> bool:
    try:
        request = read_own(folder)
    except JobError:
        return False
    return request is not None and not unnamed(request, plugins)


def withdraw(folder: Path, words: str) -> bool:
    """Cancel a job that nobody has started; whether it was one.

    Raises:
        JobError: the queue is held for too long.
        OSError: the folder cannot be written.
    """
    with locked(folder.parent):
        status = settled(folder)
        if status.state not in (*UNFINISHED, "foreign") or is_started(folder):
            return False
        write_json(folder / "status.json", replace(status, state="cancelled", message=words))
        return True
