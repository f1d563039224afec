"""The process of a job: starting it, asking whether it lives, and killing it.

No clock that can be set decides here: a process is known by its pid and by when it was started after the machine was.
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

from frostbench.app.jobs.files import (
    Asked,
    Process,
    Request,
    read_asked,
    read_process,
    read_starter,
    write_json,
)

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
TOLERANCE_SECONDS = 2.0
"""By how much two readings of one process's creation may differ where the system only tells it by the clock."""


def start(folder: Path, request: Request, plugins: Sequence[str | Path] = ()) -> None:
    """Start the worker of a job in a session of its own, so that it outlives this process and its terminal.

    It works in the directory that the job was asked for from, wherever this process is, and may run the plugins.

    Raises:
        OSError: a file cannot be written, or no process can be started; the job is then as it was.
    """
    # Who starts it is written down first: should that process be killed before it has written the worker's pid, the job
    # is told from one that nobody has started yet.
    write_json(folder / "starter.json", identity(os.getpid()))
    # -u: the log holds every line, however the worker ends. -P: no folder `app` in the current directory is taken for
    # ours.
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
    # Someone has to ask for the exit status of a child, or it stays as a zombie.
    threading.Thread(target=worker.wait, daemon=True).start()


def identity(pid: int) -> Process:
    """What tells a process from a later one with its pid.

    On Linux that is its start in clock ticks since the machine's (field 22 of /proc/PID/stat), and which start of the
    machine that was; elsewhere the time of creation that psutil tells.

    Raises:
        psutil.NoSuchProcess: there is none.
    """
    boot = boot_id()
    if not boot:
        return Process(pid, "", psutil.Process(pid).create_time())
    try:
        # The name in parentheses may hold spaces and parentheses itself.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError) as error:
        raise psutil.NoSuchProcess(pid) from error
    return Process(pid, boot, float(fields[19]))


def boot_id() -> str:
    """A name for this start of the machine; empty where the system has none."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def write_process(folder: Path, pid: int) -> None:
    """Write down which process works on a job."""
    write_json(folder / "process.json", identity(pid))


def process_of(folder: Path) -> psutil.Process | None:
    """The living process of a job; None where it has ended, or where another process has got its pid.

    Raises:
        JobError: process.json is damaged.
    """
    return living(read_process(folder))


def living(known: Process | None) -> psutil.Process | None:
    """A process that was written down, if it still lives; one that has ended and was not yet asked for does not."""
    if known is None:
        return None
    try:
        process, now = psutil.Process(known.pid), identity(known.pid)
        gone = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return None
    same = now.boot == known.boot and abs(now.start - known.start) <= (0 if known.boot else TOLERANCE_SECONDS)
    return process if same and not gone else None


def is_starting(folder: Path) -> bool:
    """Whether a job has no process yet, and one that is about to start it lives.

    Raises:
        JobError: starter.json is damaged.
    """
    return not (folder / "process.json").exists() and living(read_starter(folder)) is not None


def is_of_this_boot(folder: Path) -> bool:
    """Whether the process of a job belongs to this start of this machine, or nobody can say.

    Raises:
        JobError: process.json is damaged.
    """
    known = read_process(folder)
    return known is None or known.boot == boot_id()


def ask_to_stop(folder: Path) -> None:
    """Ask a job to stop; asked again, it waits for nothing."""
    asked = read_asked(folder)
    if asked is None:
        write_json(folder / "cancel", Asked(boot_id(), time.monotonic()))
    elif not asked.force:
        write_json(folder / "cancel", Asked(boot_id(), time.monotonic(), force=True))


def seconds_since(asked: Asked | None) -> float:
    """How long ago a job was last asked to stop; 0 where that cannot be said."""
    return time.monotonic() - asked.seconds if asked is not None and asked.boot == boot_id() else 0.0


def kill(process: psutil.Process) -> None:
    """Kill a worker with its process group, and wait a little until it is gone."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    psutil.wait_procs([process], timeout=0.5)
