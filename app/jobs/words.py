"""What is said of a job that waits or has ended."""

import errno
from collections.abc import Sequence

from frostbench.app.jobs.files import Status

LOST = (
    "The worker ended without a word: it was killed, or the machine was out of memory. Its log and what it had "
    "finished are kept."
)
RESTARTED = (
    "The machine was restarted while the worker was at work, or it worked on another machine. Its log and what it had "
    "finished are kept."
)
FORCED = "Stopped by force, for the worker did not answer; the run at work is not kept."
UNKEPT = "Stopped before the run at work had finished an epoch, so nothing of it is kept."
AT_ONCE = "Stopped at once, since it was asked twice; the run at work is not kept."
STOPPING = "Stops as soon as it can."
KEEPING = "Stops when its best finished epoch is in the store. Cancel again not to wait, and to lose it."
FULL = (
    "A run needs room on the disk, however: it is full, so the run at work is not kept. Make room, and train again: "
    "runs that were finished are found."
)
NOT_BEGUN = "Cancelled before it began."
FOREIGN = (
    "Asked for on another machine, by somebody else or by an earlier version, or changed since: it is never started "
    "here. To train the same, look at what it names and ask for it yourself; Cancel ends it."
)


def waits(ahead: int) -> str:
    """What a queued job says.

    >>> waits(2)
    'Waits for 2 other jobs.'
    """
    return {0: "Starts.", 1: "Waits for 1 other job."}.get(ahead, f"Waits for {ahead} other jobs.")


def stopped(status: Status, kept: bool) -> str:
    """What a job says that stopped when it was asked to; kept tells whether a run at work was cut short and kept.

    >>> stopped(Status(epoch=12, best_epoch=9, seeds=1), kept=True)
    'Stopped at epoch 12. Best so far (epoch 9) is kept.'
    """
    at = f" at epoch {status.epoch}. Best so far (epoch {status.best_epoch}) is kept." if kept else "."
    return with_finished(f"Stopped{at}", status)


def with_finished(sentence: str, status: Status) -> str:
    """The sentence, and how many runs a job that has ended early had finished."""
    finished = status.trained + status.found
    if not finished:
        return sentence
    return f"{sentence} {finished} of {status.seeds} runs {'was' if finished == 1 else 'were'} finished and kept."


def found_all(runs: int, stores: Sequence[str] = ()) -> str:
    """What a job says whose runs were all there, some of them perhaps in other stores.

    >>> found_all(3), found_all(1, ["demo/results"])
    ('3 found, 0 trained', '1 found, in demo/results too; 0 trained')
    """
    return f"{runs} found, in {', '.join(stores)} too; 0 trained" if stores else f"{runs} found, 0 trained"


def is_full(error: BaseException) -> bool:
    """Whether something could not be written since the disk or the quota is full; libraries tell it in various ways.

    >>> is_full(OSError(28, "No space left on device")), is_full(RuntimeError("i/o: no space left on device (28)"))
    (True, True)
    """
    full = (errno.ENOSPC, errno.EDQUOT)
    return (isinstance(error, OSError) and error.errno in full) or "no space left on device" in str(error).lower()


def failed(error: Exception) -> str:
    r"""What a job says that failed: errors that people can mend speak for themselves.

    >>> failed(TypeError("no such thing")), failed(ValueError("classes need names, however: ...\nSee the docs."))
    ('something went wrong: TypeError: no such thing', 'classes need names, however: ...')
    """
    if is_full(error):
        return FULL
    name = type(error).__name__
    first = next(iter(str(error).strip().splitlines()), "")
    if isinstance(error, ValueError | OSError):
        return first or name
    return f"something went wrong: {name}: {first}" if first else f"something went wrong: {name}"
