"""The worker of a job: `python -m frostbench.app.worker FOLDER [PLUGIN ...]`.

Workers need no coordinator. Each waits until fewer older jobs are unfinished than its request has slots, trains, and
ends. When it begins and when it ends, it starts the worker of the next job in line. It trains only jobs that this user
submitted on this machine, and executes only the plugins in its arguments.
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
from frostbench.app.jobs.files import is_stop_requested, read_stop_request
from frostbench.app.jobs.mark import read_own
from frostbench.app.jobs.messages import AT_ONCE, FOREIGN, NOT_BEGUN, UNKEPT, UNKEPT_RUNS, failed_message, with_finished
from frostbench.app.jobs.plugins import check_plugins
from frostbench.app.jobs.process import request_stop, write_process
from frostbench.app.jobs.progress import Progress
from frostbench.app.jobs.queue import Plugins
from frostbench.app.jobs.reading import eta_seconds
from frostbench.app.jobs.records import EXPERIMENTS, UNFINISHED, JobError, Request
from frostbench.app.jobs.state import current_status, unfinished
from frostbench.app.streams import accept_all_characters

POLL_SECONDS = 0.2
WAIT_SECONDS = 0.5
"""Polling period of the worker of the next job in line, the only one that waits."""
NEAR_SECONDS = 30.0
"""Remaining time of a job at which the worker of the next one in line loads the training code."""
GRACE_SECONDS = 3.0
"""How long a run without a finished epoch may go on after a request to stop."""


def main(folder: Path, plugins: Plugins = ()) -> int:
    """Train the job in a folder; return the exit status."""
    progress = Progress(folder)
    try:
        write_process(folder, os.getpid())
        _watch(folder, progress, plugins)
        progress.show(progress.status)
        _work(folder, progress, plugins)
    except Exception as error:
        # The disk may be full, so that the log cannot be written either.
        with suppress(OSError):
            traceback.print_exc()
        progress.end("failed", failed_message(error))
        return 1
    finally:
        _start_next(folder, plugins)
    return 0


def _work(folder: Path, progress: Progress, plugins: Plugins) -> None:
    request = _own_request(folder, plugins)
    ahead = _wait(queue.jobs_ahead(folder, plugins), request.slots - 1, until_near=True)
    if len(ahead) < request.slots:
        progress.begin()
    # Importing torch takes seconds and hundreds of megabytes, so it is delayed until the turn is near.
    from frostbench.app.jobs import training

    ahead = unfinished(ahead)
    if len(ahead) >= request.slots:
        training.warm_up()
    _wait(ahead, request.slots - 1)
    progress.begin()
    _start_next(folder, plugins)
    train = training.train
    if request.side in EXPERIMENTS:
        from frostbench.app.jobs.experiments import train_experiment as train
    progress.end(*train(request, progress))


def _own_request(folder: Path, plugins: Plugins) -> Request:
    """Return the request, with the store that holds the job now, because a store may be moved.

    Raises:
        JobError: the job is foreign or damaged, or names a plugin that is not allowed.
    """
    request = read_own(folder)
    if request is None:
        raise JobError(f"Job {folder.name} cannot be started here. {FOREIGN}")
    check_plugins(request, plugins)
    return replace(request, bench=request.bench | {"store": str(folder.parent.parent)})


def _wait(ahead: list[Path], most: int, until_near: bool = False) -> list[Path]:
    """Wait until at most `most` jobs are unfinished or, with `until_near`, one nears its end; return the unfinished."""
    while len(ahead := unfinished(ahead)) > most and not (until_near and any(map(_is_near_its_end, ahead))):
        time.sleep(WAIT_SECONDS)
    return ahead


def _is_near_its_end(folder: Path) -> bool:
    left = eta_seconds(current_status(folder))
    return left is not None and left < NEAR_SECONDS


def _start_next(folder: Path, plugins: Plugins) -> None:
    """Start the worker of the next job in line; if that fails, the next process that reads the queue tries again."""
    try:
        queue.advance(folder.parent.parent, plugins)
    except (ValueError, OSError):
        with suppress(OSError):
            traceback.print_exc()


def _watch(folder: Path, progress: Progress, plugins: Plugins) -> None:
    """Start the threads that end the job on a request to stop, even if the main thread is busy."""
    # Python runs signal handlers only between bytecodes of the main thread, and a solver's step may take long.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=_handle_signal, args=(folder,), daemon=True).start()
    threading.Thread(target=_handle_stop_request, args=(folder, progress, plugins), daemon=True).start()


def _handle_signal(folder: Path) -> None:
    signal.sigwait({signal.SIGTERM})
    request_stop(folder)


def _handle_stop_request(folder: Path, progress: Progress, plugins: Plugins) -> None:
    while not is_stop_requested(folder):
        time.sleep(POLL_SECONDS)
    message = NOT_BEGUN
    if progress.status.state != "queued":
        message = with_finished(_wait_for_end(folder, progress), progress.status)
    try:
        if progress.status.state in UNFINISHED:
            with suppress(OSError):
                print(message)
            progress.end("cancelled", message)
        _start_next(folder, plugins)
    finally:
        os._exit(0)


def _wait_for_end(folder: Path, progress: Progress) -> str:
    """Give the main thread time to save results; return the message for a job that did not end in that time.

    A run with a finished epoch has no time limit, because the current step, the evaluation on validation rows and
    writing the head may take long.
    """
    until = time.monotonic() + GRACE_SECONDS
    while progress.status.state in UNFINISHED and (progress.status.holds or time.monotonic() < until):
        request = read_stop_request(folder)
        if request is not None and request.force:
            return AT_ONCE
        time.sleep(POLL_SECONDS)
    return UNKEPT if progress.status.share is None else UNKEPT_RUNS


if __name__ == "__main__":
    faulthandler.enable()
    accept_all_characters()
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
