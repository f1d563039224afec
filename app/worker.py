"""The worker of a job: `python -m app.worker FOLDER`.

It needs no coordinator: it waits while as many older jobs as the request has slots are unfinished, trains, and ends.
"""

import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

from app.jobs.files import UNFINISHED, ask_to_stop, asked_to_stop, read_request
from app.jobs.process import write_process
from app.jobs.progress import Progress
from app.jobs.state import older_jobs, unfinished
from app.jobs.words import NOT_BEGUN, UNKEPT, failed, with_finished
from app.streams import accept_all_characters

LOOK_SECONDS = 0.2
GRACE_SECONDS = 3.0
"""How long a run at work may take to end its epoch and be kept, after the job was asked to stop."""


def main(folder: Path) -> int:
    """Work on the job in a folder; returns the exit status."""
    write_process(folder, os.getpid())
    progress = Progress(folder)
    _watch(folder, progress)
    progress.show(progress.status)
    try:
        _work(folder, progress)
    except Exception as error:
        traceback.print_exc()
        progress.end("failed", failed(error))
        return 1
    return 0


def _work(folder: Path, progress: Progress) -> None:
    request = read_request(folder)
    before = _wait(older_jobs(folder), request.slots)
    if len(before) < request.slots:
        progress.begin()
    # torch takes seconds and memory: it is imported by the next in line, not by every job that waits.
    from app.jobs import training

    before = unfinished(before)
    if len(before) >= request.slots:
        training.warm_up()
    _wait(before, request.slots - 1)
    progress.begin()
    progress.end(*training.train(request, progress))


def _wait(before: list[Path], most: int) -> list[Path]:
    """Wait until at most that many of the jobs before are unfinished; returns those."""
    while len(before := unfinished(before)) > most:
        time.sleep(LOOK_SECONDS)
    return before


def _watch(folder: Path, progress: Progress) -> None:
    """Start the threads that end the job when it is asked to stop, whatever the main thread does."""
    # Python runs a signal handler only between two steps of the main thread, and a solver's step may be long.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=_take_signal, args=(folder,), daemon=True).start()
    threading.Thread(target=_take_cancel, args=(folder, progress), daemon=True).start()


def _take_signal(folder: Path) -> None:
    signal.sigwait({signal.SIGTERM})
    ask_to_stop(folder)


def _take_cancel(folder: Path, progress: Progress) -> None:
    while not asked_to_stop(folder):
        time.sleep(LOOK_SECONDS)
    words = NOT_BEGUN
    if progress.status.state != "queued":
        time.sleep(GRACE_SECONDS)
        words = with_finished(UNKEPT, progress.status)
    try:
        if progress.status.state in UNFINISHED:
            print(words)
            progress.end("cancelled", words)
    finally:
        os._exit(0)


if __name__ == "__main__":
    faulthandler.enable()
    accept_all_characters()
    sys.exit(main(Path(sys.argv[1])))
