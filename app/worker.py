"""The worker of a job: `python -m frostbench.app.worker FOLDER [PLUGIN ...]`.

It needs no coordinator: it waits while as many older jobs as the request has slots are unfinished, trains, and ends. As
it begins and as it ends it starts the worker of whoever is next in line. It trains only what this user asked for on
this machine, and runs no plugin but those named to it.
"""

import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from frostbench.app.jobs import queue
from frostbench.app.jobs.files import UNFINISHED, JobError, Request, asked_to_stop, read_asked
from frostbench.app.jobs.mark import read_own
from frostbench.app.jobs.plugged import check_plugins
from frostbench.app.jobs.process import ask_to_stop, write_process
from frostbench.app.jobs.progress import Progress
from frostbench.app.jobs.queue import Plugins
from frostbench.app.jobs.reading import eta_seconds
from frostbench.app.jobs.state import settled, unfinished
from frostbench.app.jobs.words import AT_ONCE, FOREIGN, NOT_BEGUN, UNKEPT, failed, with_finished
from frostbench.app.streams import accept_all_characters

LOOK_SECONDS = 0.2
WAIT_SECONDS = 0.5
"""Between two looks of the next in line at the jobs before it; there is one such worker, whatever waits behind it."""
NEAR_SECONDS = 30.0
"""How long before the end of a job the next in line makes itself ready."""
GRACE_SECONDS = 3.0
"""How long a run at work without a finished epoch may take to get one, after the job was asked to stop."""


def main(folder: Path, plugins: Plugins = ()) -> int:
    """Work on the job in a folder; returns the exit status."""
    progress = Progress(folder)
    try:
        write_process(folder, os.getpid())
        _watch(folder, progress, plugins)
        progress.show(progress.status)
        _work(folder, progress, plugins)
    except Exception as error:
        # On a full disk the log takes nothing either.
        with suppress(OSError):
            traceback.print_exc()
        progress.end("failed", failed(error))
        return 1
    finally:
        _call_next(folder, plugins)
    return 0


def _work(folder: Path, progress: Progress, plugins: Plugins) -> None:
    request = _own_request(folder, plugins)
    before = _wait(queue.before(folder, plugins), request.slots - 1, until_near=True)
    if len(before) < request.slots:
        progress.begin()
    # torch takes seconds, and the better part of a gigabyte: it is imported when the turn has come, or is near.
    from frostbench.app.jobs import training

    before = unfinished(before)
    if len(before) >= request.slots:
        training.warm_up()
    _wait(before, request.slots - 1)
    progress.begin()
    _call_next(folder, plugins)
    progress.end(*training.train(request, progress))


def _own_request(folder: Path, plugins: Plugins) -> Request:
    """What to train, into the store in which the job lies, which may have been moved since.

    Raises:
        JobError: it is not of this user and machine, is damaged, or names a plugin that may not be run.
    """
    request = read_own(folder)
    if request is None:
        raise JobError(f"a job is started for whoever asked for it, however: {folder.name} is not. {FOREIGN}")
    check_plugins(request, plugins)
    return replace(request, bench=request.bench | {"store": str(folder.parent.parent)})


def _wait(before: list[Path], most: int, until_near: bool = False) -> list[Path]:
    """Wait until at most that many of the jobs before are unfinished, or one of them is near its end; returns those."""
    while len(before := unfinished(before)) > most and not (until_near and any(map(_is_near_its_end, before))):
        time.sleep(WAIT_SECONDS)
    return before


def _is_near_its_end(folder: Path) -> bool:
    left = eta_seconds(settled(folder))
    return left is not None and left < NEAR_SECONDS


def _call_next(folder: Path, plugins: Plugins) -> None:
    """Start the worker of the next in line; whoever looks at the queue next tries again where this is not possible."""
    try:
        queue.advance(folder.parent.parent, plugins)
    except (ValueError, OSError):
        with suppress(OSError):
            traceback.print_exc()


def _watch(folder: Path, progress: Progress, plugins: Plugins) -> None:
    """Start the threads that end the job when it is asked to stop, whatever the main thread does."""
    # Python runs a signal handler only between two steps of the main thread, and a solver's step may be long.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=_take_signal, args=(folder,), daemon=True).start()
    threading.Thread(target=_take_cancel, args=(folder, progress, plugins), daemon=True).start()


def _take_signal(folder: Path) -> None:
    signal.sigwait({signal.SIGTERM})
    ask_to_stop(folder)


def _take_cancel(folder: Path, progress: Progress, plugins: Plugins) -> None:
    while not asked_to_stop(folder):
        time.sleep(LOOK_SECONDS)
    words = NOT_BEGUN
    if progress.status.state != "queued":
        words = with_finished(_grant(folder, progress), progress.status)
    try:
        if progress.status.state in UNFINISHED:
            with suppress(OSError):
                print(words)
            progress.end("cancelled", words)
        _call_next(folder, plugins)
    finally:
        os._exit(0)


def _grant(folder: Path, progress: Progress) -> str:
    """Give the main thread its time to keep what there is; a sentence on what is lost when that is over.

    The time of a run that has finished an epoch is not limited: the main thread leaves its pass within a second, but a
    step, the judgement of the selection rows and the writing of the head take what they take.
    """
    until = time.monotonic() + GRACE_SECONDS
    while progress.status.state in UNFINISHED and (progress.status.holds or time.monotonic() < until):
        asked = read_asked(folder)
        if asked is not None and asked.force:
            return AT_ONCE
        time.sleep(LOOK_SECONDS)
    return UNKEPT


if __name__ == "__main__":
    faulthandler.enable()
    accept_all_characters()
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
