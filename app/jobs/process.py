"""The process of a job: starting it, asking whether it lives, and killing it."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

from app.jobs.files import Process, read_process, write_json

STARTING_SECONDS = 30.0
"""How long a job without a process counts as being started."""
CLOCK_SECONDS = 2.0
"""By how much two readings of one process's creation may differ: a clock that is set right moves them."""


def start(folder: Path) -> None:
    """Start the worker of a job in a session of its own, so that it outlives this process and its terminal."""
    # -u: the log holds every line, however the worker ends. -P: no folder `app` in the current directory is taken for
    # ours.
    command = [sys.executable, "-u", "-P", "-m", "app.worker", str(folder.resolve())]
    with (folder / "log.txt").open("ab") as log:
        worker = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    write_process(folder, worker.pid)
    # Someone has to ask for the exit status of a child, or it stays as a zombie.
    threading.Thread(target=worker.wait, daemon=True).start()


def write_process(folder: Path, pid: int) -> None:
    """Write down which process works on a job."""
    write_json(folder / "process.json", Process(pid, psutil.Process(pid).create_time()))


def process_of(folder: Path) -> psutil.Process | None:
    """The living process of a job; None where it has ended, or where another process has got its pid.

    Raises:
        JobError: process.json is damaged.
    """
    known = read_process(folder)
    if known is None:
        return None
    try:
        process = psutil.Process(known.pid)
        same = abs(process.create_time() - known.create_time) <= CLOCK_SECONDS
        gone = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return None
    return process if same and not gone else None


def is_starting(folder: Path) -> bool:
    """Whether a job has no process yet, and is young enough to get one."""
    try:
        return not (folder / "process.json").exists() and time.time() - folder.stat().st_mtime < STARTING_SECONDS
    except FileNotFoundError:
        return False


def kill(process: psutil.Process) -> None:
    """Kill a worker with its process group, and wait a little until it is gone."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    psutil.wait_procs([process], timeout=0.5)
