"""Asking for a job, and asking it to stop."""

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from frostbench.app.jobs import queue
from frostbench.app.jobs.ending import reserve_end
from frostbench.app.jobs.files import (
    SIDES,
    UNFINISHED,
    JobError,
    Request,
    Status,
    asked_to_stop,
    folder_of,
    is_started,
    read_request,
    write_json,
)
from frostbench.app.jobs.ids import new_id
from frostbench.app.jobs.mark import write_mark
from frostbench.app.jobs.plugged import check_plugins
from frostbench.app.jobs.process import ask_to_stop
from frostbench.app.jobs.state import settled, unfinished
from frostbench.app.jobs.words import NOT_BEGUN, found_all


def submit(
    store: Path,
    side: str,
    bench: dict[str, Any],
    *,
    title: str = "",
    slots: int = 1,
    device: str = "cpu",
    keys: Mapping[int, str] | None = None,
    plugins: queue.Plugins = (),
) -> str:
    """Put a job into the queue and return its ID; its worker is started when its turn comes.

    Where an unfinished job of this side trains the same already, it is that job, and no second one is made.

    Args:
        store: folder of the run store; runs go there, whatever store the bench names.
        side: A or B.
        bench: tree of a BenchSpec with one row and one cache; what is wrong with it is found by the worker, and told
            by the job as failed. Relative paths count from the current directory.
        title: how a person calls the job.
        slots: the job waits while this many older jobs of the store are unfinished.
        device: where training happens, such as cpu or cuda.
        keys: the runs that it stands for by seed, where they are known.
        plugins: files that the job, and those that its worker starts, may run as code; it may name no others.

    Raises:
        JobError: the side is neither A nor B, there is no slot, the bench names another plugin, too many jobs are
            unfinished, or the secret that marks jobs as this user's cannot be had.
        OSError: the folder cannot be written, or no process can be started.
    """
    if side not in SIDES or slots < 1:
        raise JobError(
            f"a job is for side A or B and needs a slot, however: side {side!r} and {slots} slots came. Name a side, "
            "and at least one slot."
        )
    home, request = Path(store) / "jobs", _request(store, side, bench, title, slots, device, keys)
    check_plugins(request, plugins)
    with queue.locked(home):
        living = unfinished([home / name for name in queue.ids(home)])
        same = next((folder for folder in living if not asked_to_stop(folder) and _is_same(folder, request)), None)
        if same is not None:
            return same.name
        if len(living) >= queue.MOST_UNFINISHED:
            raise JobError(
                f"a store holds at most {queue.MOST_UNFINISHED} unfinished jobs, however: {len(living)} wait or train. "
                "Wait until some have ended, or cancel some."
            )
        folder = _write(home, request)
        try:
            queue.start_due(home, plugins)
        except OSError:
            if not is_started(folder):
                shutil.rmtree(folder)
            raise
    return folder.name


def submit_found(
    store: Path,
    side: str,
    bench: dict[str, Any],
    keys: Mapping[int, str],
    *,
    title: str = "",
    stores: Sequence[str] = (),
) -> str:
    """Write down a job whose runs are all in the store, which needs no worker; returns its ID.

    Where the newest job of this side found or trained the same, it is that one. `stores` are others that some of the
    runs came from.

    Raises:
        JobError: the side is neither A nor B.
        OSError: the folder cannot be written.
    """
    if side not in SIDES:
        raise JobError(f"a job is for side A or B, however: side {side!r} came. Name a side.")
    home, request = Path(store) / "jobs", _request(store, side, bench, title, 1, "cpu", keys)
    seeds, now = len(keys), request.created
    ended = {"message": found_all(seeds, stores), "began": now, "ended": now, "keys": dict(keys), "found": seeds}
    status = Status(state="done", seed_number=seeds, seeds=seeds, **ended)
    with queue.locked(home):
        last = next((home / name for name in reversed(queue.ids(home)) if _side_of(home / name) == side), None)
        if last is not None and _is_same(last, request) and settled(last).state == "done":
            return last.name
        return _write(home, request, status).name


def _request(
    store: Path,
    side: str,
    bench: dict[str, Any],
    title: str,
    slots: int,
    device: str,
    keys: Mapping[int, str] | None,
) -> Request:
    tree, here = bench | {"store": str(store)}, str(Path.cwd())
    return Request(side, title, tree, slots, device, time.time(), here, dict(keys or {}))


def _write(home: Path, request: Request, status: Status | None = None) -> Path:
    """Put the files of a new job into their folder, whole or not at all; the folder."""
    job_id = new_id(request.created, max(queue.ids(home), default=""))
    partial = home / f".{job_id}"
    partial.mkdir()
    try:
        write_json(partial / "request.json", request)
        if status is None:
            reserve_end(partial)
            write_mark(partial, job_id)
        else:
            write_json(partial / "status.json", status)
        return partial.rename(home / job_id)
    except (OSError, JobError):
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _side_of(folder: Path) -> str:
    try:
        return read_request(folder).side
    except JobError:
        return ""


def _is_same(folder: Path, asked: Request) -> bool:
    """Whether a job is for the same side and stands for the same runs: by their keys, or else by what was asked for."""
    try:
        other = read_request(folder)
    except JobError:
        return False
    if other.side != asked.side:
        return False
    if other.keys and asked.keys:
        return other.keys == asked.keys
    # As it is in a file: JSON has no tuples.
    bench = json.loads(json.dumps(asked.bench))
    return (other.bench, other.folder, other.device) == (bench, asked.folder, asked.device)


def cancel(store: Path, job_id: str, plugins: queue.Plugins = ()) -> None:
    """Ask a job to stop; one that has ended stays as it is.

    Without a finished epoch it ends within 5 s. With one it keeps the best, and ends when that is done; asked a second
    time it does not wait for that. A foreign job is only marked as cancelled. `plugins` are as for `advance`.

    Raises:
        JobError: the ID is none, or the store has no such job.
    """
    folder = folder_of(store, job_id)
    if not is_started(folder) and queue.withdraw(folder, NOT_BEGUN):
        queue.advance(store, plugins)
    elif settled(folder).state in UNFINISHED:
        ask_to_stop(folder)
