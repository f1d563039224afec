"""Messages about jobs that wait or have ended."""

import errno
from collections.abc import Sequence

from frostbench.app.jobs.records import Status
from frostbench.benchmarks.settings.nouns import with_noun

LOST = (
    "The worker ended unexpectedly: it was killed, or the machine ran out of memory. Its log and its finished runs are "
    "kept."
)
RESTARTED = (
    "The machine was restarted during training, or the job ran on another machine. Its log and its finished runs are "
    "kept."
)
FORCED = "Killed, because the worker did not respond; the current run is not kept."
UNKEPT = "Stopped before the current run had finished an epoch, so nothing of it is kept."
UNKEPT_RUNS = "Stopped before the current runs had ended, so they are not kept."
AT_ONCE = "Stopped immediately after the second request to cancel; the current run is not kept."
STOPPING = "Stopping."
KEEPING = "Stopping: the best epoch so far is being saved. Cancel again to stop immediately and lose it."
FULL = "The disk is full, so the current run is not kept. Free some space and train again; finished runs are kept."
NOT_BEGUN = "Cancelled before it started."
FOREIGN = (
    "This job was submitted on another machine, by another user or by an earlier version, or was changed since, so it "
    "is never started here. To train the same runs, check the files it names, submit a new job and cancel this one."
)


def waiting_message(ahead: int) -> str:
    """Return the message of a queued job.

    >>> waiting_message(2)
    'Waiting for 2 other jobs.'
    """
    return {0: "Starting.", 1: "Waiting for 1 other job."}.get(ahead, f"Waiting for {ahead} other jobs.")


def stopped_message(status: Status, kept: bool) -> str:
    """Return the message of a job that was stopped; `kept` says whether the unfinished run was saved.

    >>> stopped_message(Status(epoch=12, best_epoch=9, seeds=1), kept=True)
    'Stopped at epoch 12. The best epoch so far (9) is kept.'
    """
    at = f" at epoch {status.epoch}. The best epoch so far ({status.best_epoch}) is kept." if kept else "."
    return with_finished(f"Stopped{at}", status)


def with_finished(sentence: str, status: Status) -> str:
    """Append to a sentence how many runs a job that ended early had finished.

    >>> with_finished("Stopped.", Status(seeds=1, trained=1)), with_finished("Stopped.", Status(seeds=3, trained=2))
    ('Stopped. 1 of 1 run was finished and kept.', 'Stopped. 2 of 3 runs were finished and kept.')
    """
    finished = status.trained + status.found
    if not finished:
        return sentence
    verb = "was" if finished == 1 else "were"
    return f"{sentence} {finished} of {with_noun(status.seeds, 'run')} {verb} finished and kept."


def found_all_message(runs: int, stores: Sequence[str] = ()) -> str:
    """Return the message of a job whose runs all existed, some of them perhaps in other stores.

    >>> found_all_message(3), found_all_message(1, ["demo/results"])
    ('3 found, 0 trained', '1 found (some in demo/results), 0 trained')
    """
    origin = f" (some in {', '.join(stores)})" if stores else ""
    return f"{runs} found{origin}, 0 trained"


def is_disk_full(error: BaseException) -> bool:
    """Whether writing failed because the disk or the quota is full, which libraries report in different ways.

    >>> is_disk_full(OSError(28, "No space left on device")), is_disk_full(RuntimeError("no space left on device (28)"))
    (True, True)
    """
    full = (errno.ENOSPC, errno.EDQUOT)
    return (isinstance(error, OSError) and error.errno in full) or "no space left on device" in str(error).lower()


def failed_message(error: Exception) -> str:
    r"""Return the message of a failed job: the first line of an error that users can fix, or a generic message.

    >>> failed_message(TypeError("bad operand")), failed_message(ValueError("Class names must differ.\nSee the docs."))
    ('Internal error: TypeError: bad operand', 'Class names must differ.')
    """
    if is_disk_full(error):
        return FULL
    name = type(error).__name__
    first = next(iter(str(error).strip().splitlines()), "")
    if isinstance(error, ValueError | OSError):
        return first or name
    return f"Internal error: {name}: {first}" if first else f"Internal error: {name}"
