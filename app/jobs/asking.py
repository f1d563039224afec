"""Asking for a job, and asking it to stop."""

import shutil
import time
from pathlib import Path
from typing import Any

from app.jobs import process
from app.jobs.files import SIDES, UNFINISHED, JobError, Request, folder_of, is_id, new_id, write_json
from app.jobs.state import settled


def submit(
    store: Path, side: str, bench: dict[str, Any], *, title: str = "", slots: int = 1, device: str = "cpu"
) -> str:
    """Start a worker for a job and return the job's ID; the worker waits until it is the job's turn.

    Args:
        store: folder of the run store; runs go there, whatever store the bench names.
        side: A or B.
        bench: tree of a BenchSpec with one row and one cache; what is wrong with it is found by the worker, and told
            by the job as failed. Relative paths count from the current directory.
        title: how a person calls the job.
        slots: the job waits while this many older jobs of the store are unfinished.
        device: where training happens, such as cpu or cuda.

    Raises:
        JobError: the side is neither A nor B, or there is no slot.
        OSError: the folder cannot be written, or no process can be started.
    """
    if side not in SIDES or slots < 1:
        raise JobError(
            f"a job is for side A or B and needs a slot, however: side {side!r} and {slots} slots came. Name a side, "
            "and at least one slot."
        )
    created = time.time()
    home = Path(store) / "jobs"
    home.mkdir(parents=True, exist_ok=True)
    job_id = new_id(created, max((path.name for path in home.iterdir() if is_id(path.name)), default=""))
    partial = home / f".{job_id}"
    partial.mkdir()
    request = Request(side, title, bench | {"store": str(store)}, slots, device, created)
    write_json(partial / "request.json", request)
    folder = partial.rename(home / job_id)
    try:
        process.start(folder)
    except OSError:
        shutil.rmtree(folder)
        raise
    return job_id


def cancel(store: Path, job_id: str) -> None:
    """Ask a job to stop; one that has ended stays as it is.

    Without a finished epoch it ends within 5 s. With one it keeps the best, and ends when that is done; asked a second
    time it does not wait for that.

    Raises:
        JobError: the ID is none, or the store has no such job.
    """
    folder = folder_of(store, job_id)
    if settled(folder).state in UNFINISHED:
        process.ask_to_stop(folder)
