"""The worker process of a job: starting it, checking whether it is alive, stopping and killing it.

On Linux, processes are identified by their pid and start time since boot, so that changes of the clock do not matter.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from frostbench.app.jobs.files import read_process, read_starter, read_stop_request, write_json
from frostbench.app.jobs.records import Process, Request, StopRequest

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
TOLERANCE_SECONDS = 2.0
"""Maximum difference between two readings of a process's creation time on systems without a boot ID."""


def start(folder: Path, request: Request, plugins: Sequence[str | Path] = ()) -> None:
    """Start the worker of a job in its own session, so that it outlives this process and its terminal.

    The worker's directory is the one that the job was submitted from, and it may execute the plugins.

    Raises:
        OSError: a file cannot be written, or no process can be started; the job is then unchanged.
    """
    # The starter is recorded first: if it is killed before it has written the worker's pid, the job can be told from
    # one that was never started.
    write_json(folder / "starter.json", identity(os.getpid()))
    # -u: keep every line in the log, however the worker ends. -P: import no modules from the current directory.
    command = [sys.executable, "-u", "-P", "-m", "frostbench.app.worker", str(folder.resolve())]
    command += [str(Path(file).resolve()) for file in plugins]
    try:
        with (folder / "log.txt").open("ab") as log:
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            worker = subprocess.Popen(command, cwd=request.folder or None, start_new_session=True, **streams)
    except OSError:
        (folder / "starter.json").unlink()
        raise
    write_process(folder, worker.pid)
    # A child whose exit status is never read stays a zombie.
    threading.Thread(target=worker.wait, daemon=True).start()


def identity(pid: int) -> Process:
    """Return what distinguishes a process from a later one with the same pid.

    On Linux this is its start in clock ticks since boot (field 22 of /proc/PID/stat) and the boot ID; elsewhere the
    creation time reported by psutil.

    Raises:
        psutil.NoSuchProcess: there is no such process.
    """
    boot = boot_id()
    if not boot:
        return Process(pid, "", psutil.Process(pid).create_time())
    try:
        # The name in parentheses may itself contain spaces and parentheses.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError) as error:
        raise psutil.NoSuchProcess(pid) from error
    return Process(pid, boot, float(fields[19]))


def boot_id() -> str:
    """Return the ID of the machine's current boot; empty if the system has none."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def write_process(folder: Path, pid: int) -> None:
    """Record the worker process of a job."""
    write_json(folder / "process.json", identity(pid))


def process_of(folder: Path) -> psutil.Process | None:
    """Return the worker process of a job if it is alive, or None if it has ended or its pid was reused.

    Raises:
        JobError: process.json is damaged.
    """
    return find_alive(read_process(folder))


def find_alive(recorded: Process | None) -> psutil.Process | None:
    """Return a recorded process if it is still alive (and not a zombie), otherwise None."""
    if recorded is None:
        return None
    try:
        process, now = psutil.Process(recorded.pid), identity(recorded.pid)
        ended = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return None
    tolerance = 0 if recorded.boot else TOLERANCE_SECONDS
    is_same = now.boot == recorded.boot and abs(now.start - recorded.start) <= tolerance
    return process if is_same and not ended else None


def is_starting(folder: Path) -> bool:
    """Whether a job has no worker process yet, but the process that is about to start it is alive.

    Raises:
        JobError: starter.json is damaged.
    """
    return not (folder / "process.json").exists() and find_alive(read_starter(folder)) is not None


def is_of_this_boot(folder: Path) -> bool:
    """Whether a job's process, if recorded, is of the current boot. Raises JobError if process.json is damaged."""
    recorded = read_process(folder)
    return recorded is None or recorded.boot == boot_id()


def request_stop(folder: Path) -> None:
    """Request a job to stop; the second request sets `force`, so that no results are saved first."""
    earlier = read_stop_request(folder)
    if earlier is None or not earlier.force:
        write_json(folder / "cancel", StopRequest(boot_id(), time.monotonic(), force=earlier is not None))


def seconds_since(request: StopRequest) -> float:
    """Return the time since a request to stop; 0 if it was made before the machine's current boot."""
    return time.monotonic() - request.seconds if request.boot == boot_id() else 0.0


def kill(process: psutil.Process) -> None:
    """Kill a worker with its process group, and wait briefly until it has ended."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    psutil.wait_procs([process], timeout=0.5)
