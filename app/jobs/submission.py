"""Submitting and cancelling jobs."""

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from frostbench.app.jobs import queue
from frostbench.app.jobs.ending import reserve_end
from frostbench.app.jobs.files import folder_of, is_started, is_stop_requested, read_request, write_json
from frostbench.app.jobs.ids import new_id
from frostbench.app.jobs.mark import write_mark
from frostbench.app.jobs.messages import NOT_BEGUN, found_all_message
from frostbench.app.jobs.plugins import check_plugins
from frostbench.app.jobs.process import request_stop
from frostbench.app.jobs.records import EXPERIMENTS, SIDES, UNFINISHED, JobError, Request, Status
from frostbench.app.jobs.state import current_status, unfinished
from frostbench.benchmarks.settings.nouns import with_noun


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
    rounds: int = 0,
) -> str:
    """Add a job to the queue and return its ID; its worker is started when its turn comes.

    If an unfinished job of this side already trains the same runs, its ID is returned and no job is added.

    Args:
        store: folder of the run store; runs are stored there, whatever store the bench names.
        side: A or B, or the kind of an experiment (`EXPERIMENTS`).
        bench: tree of a BenchSpec with one cache and, for a side, one row, validated by the worker, which reports
            errors as the job's failure. Relative paths start from the current directory.
        title: display name of the job.
        slots: number of jobs that may train at the same time; the job waits while as many older ones are unfinished.
        device: device to train on, such as cpu or cuda.
        keys: run keys by seed, or by number for an experiment, if known.
        plugins: the only files that the job, and the jobs its worker starts, may execute.
        rounds: number of rounds of successive halving of a search; 0 to train all settings in full.

    Raises:
        JobError: there is no such side or kind, slots is below 1, the bench names another plugin, too many jobs are
            unfinished, or the secret that marks this user's jobs cannot be read.
        OSError: the folder cannot be written, or no process can be started.
    """
    if side not in (*SIDES, *EXPERIMENTS) or slots < 1:
        given = f"side {side!r} and {with_noun(slots, 'slot')}"
        raise JobError(f"A job needs side A or B, changes or search, and at least one slot, got {given}.")
    home, request = Path(store) / "jobs", _request(store, side, bench, title, slots, device, keys, rounds)
    check_plugins(request, plugins)
    with queue.locked(home):
        active = unfinished([home / name for name in queue.job_ids(home)])
        same = next((folder for folder in active if not is_stop_requested(folder) and _is_same(folder, request)), None)
        if same is not None:
            return same.name
        if len(active) >= queue.MOST_UNFINISHED:
            raise JobError(
                f"A store may hold {queue.MOST_UNFINISHED} unfinished jobs, and this one already has {len(active)}. "
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
    """Add a finished job whose runs are all in the store, so that no worker is needed; return its ID.

    If the newest job of this side found or trained the same runs, its ID is returned. `stores` names the other stores
    that some of the runs came from.

    Raises:
        JobError: there is no such side or kind.
        OSError: the folder cannot be written.
    """
    if side not in (*SIDES, *EXPERIMENTS):
        raise JobError(f"A job needs side A or B, changes or search, got {side!r}.")
    home, request = Path(store) / "jobs", _request(store, side, bench, title, 1, "cpu", keys)
    seeds, now = len(keys), request.created
    ended: dict[str, Any] = {
        "message": found_all_message(seeds, stores),
        "began": now,
        "ended": now,
        "keys": dict(keys),
    }
    share = 1.0 if side in EXPERIMENTS else None
    status = Status(state="done", seed_number=seeds, seeds=seeds, found=seeds, share=share, **ended)
    with queue.locked(home):
        last = next((home / name for name in reversed(queue.job_ids(home)) if _side_of(home / name) == side), None)
        if last is not None and _is_same(last, request) and current_status(last).state == "done":
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
    rounds: int = 0,
) -> Request:
    tree, here = bench | {"store": str(store)}, str(Path.cwd())
    return Request(side, title, tree, slots, device, time.time(), here, dict(keys or {}), rounds)


def _write(home: Path, request: Request, status: Status | None = None) -> Path:
    """Write the folder of a new job atomically, and return it."""
    job_id = new_id(request.created, max(queue.job_ids(home), default=""))
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


def _is_same(folder: Path, request: Request) -> bool:
    """Whether a job has the side and the runs of a request; if run keys are not known, the benches are compared."""
    try:
        other = read_request(folder)
    except JobError:
        return False
    if (other.side, other.rounds) != (request.side, request.rounds):
        return False
    if other.keys and request.keys:
        return other.keys == request.keys
    # The other bench was read from JSON, which has no tuples.
    bench = json.loads(json.dumps(request.bench))
    return (other.bench, other.folder, other.device) == (bench, request.folder, request.device)


def cancel(store: Path, job_id: str, plugins: queue.Plugins = ()) -> None:
    """Cancel a job unless it has ended.

    Without a finished epoch the job ends within 5 s; with one, it saves the best epoch first, unless it is cancelled a
    second time. A foreign job is only marked as cancelled. `plugins` are those of `advance`.

    Raises:
        JobError: the ID is invalid, or the store has no such job.
    """
    folder = folder_of(store, job_id)
    if not is_started(folder) and queue.withdraw(folder, NOT_BEGUN):
        queue.advance(store, plugins)
    elif current_status(folder).state in UNFINISHED:
        request_stop(folder)
