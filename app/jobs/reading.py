"""What the page shows of jobs."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from frostbench.app.jobs import queue
from frostbench.app.jobs.files import UNFINISHED, JobError, Status, asked_to_stop, folder_of, is_started, read_request
from frostbench.app.jobs.plugged import needs, unnamed
from frostbench.app.jobs.state import older_jobs, settled, unfinished
from frostbench.app.jobs.words import KEEPING, STOPPING, waits

POINTS = 500
"""Points of a curve; more cannot be told apart on a page."""
TAIL_BYTES = 65_536
LOADS = "Loads the trainer and the table."


@dataclass(frozen=True, kw_only=True)
class Job(Status):
    """A job as it is now: its status, and what was asked for.

    Attributes:
        id: its ID.
        side: A or B.
        title: how a person calls it.
        bench: tree of the BenchSpec that was asked for.
        created: when it was asked for, in seconds since 1970.
        ahead: how many unfinished jobs stand before it while it is queued.
        stopping: whether it was asked to stop and has not ended yet.
    """

    id: str
    side: str
    title: str = ""
    bench: dict[str, Any] = field(default_factory=dict)
    created: float = 0.0
    ahead: int = 0
    stopping: bool = False


def read(store: Path, job_id: str, plugins: Sequence[str | Path] | None = None) -> Job:
    """A job as it is now; a worker that has not stopped for too long after it was asked to is killed.

    Where plugins are given, a job that waits and names another one says so.

    Raises:
        JobError: the ID is none, the store has no such job, or its request.json is damaged.
    """
    folder = folder_of(store, job_id)
    request, status = read_request(folder), settled(folder)
    ahead = len(unfinished(older_jobs(folder))) if status.state == "queued" else 0
    stopping = status.state in UNFINISHED and asked_to_stop(folder)
    message = (KEEPING if status.holds else STOPPING) if stopping else status.message or _meanwhile(status, ahead)
    if status.state == "queued" and plugins is not None and not is_started(folder):
        message = needs(unnamed(request, plugins)) or message
    asked = {"side": request.side, "title": request.title, "bench": request.bench, "created": request.created}
    known: dict[str, Any] = asked | asdict(status) | {"message": message}
    return Job(id=job_id, ahead=ahead, stopping=stopping, **known)


def _meanwhile(status: Status, ahead: int) -> str:
    if status.state == "queued":
        return waits(ahead)
    return LOADS if status.state == "running" and status.seed_number == 0 else ""


def jobs(store: Path) -> list[str]:
    """IDs of the jobs of a store, newest first."""
    return queue.ids(Path(store) / "jobs")[::-1]


def listed(store: Path, ended: int = 5, plugins: Sequence[str | Path] | None = None) -> tuple[list[Job], int]:
    """All unfinished jobs of a store and the newest ended ones, newest first, and how many older ones there are.

    A job whose request cannot be read is listed as failed. `plugins` are as for `read`.
    """
    home, found, more = Path(store) / "jobs", [], 0
    for job_id in jobs(store):
        is_over = settled(home / job_id).state not in UNFINISHED
        if is_over and ended == 0:
            more += 1
            continue
        ended -= is_over
        try:
            found.append(read(store, job_id, plugins))
        except JobError as error:
            found.append(Job(id=job_id, side="", state="failed", message=str(error)))
    return found, more


def newest(store: Path, side: str) -> str | None:
    """ID of the newest job of a side; None where there is none. Jobs whose request is damaged are passed over."""
    for job_id in jobs(store):
        try:
            if read_request(folder_of(store, job_id)).side == side:
                return job_id
        except JobError:
            continue
    return None


def eta_seconds(job: Status) -> float | None:
    """How long a running job takes at most at its present pace; None where nobody can know.

    >>> from dataclasses import replace
    >>> job = Job(id="20261128-034512-123456-a1b2", side="A", state="running", pace=0.5)
    >>> eta_seconds(replace(job, seed_number=1, seeds=2, epoch=10, epochs=50))
    45.0
    """
    if job.state != "running" or job.pace is None:
        return None
    return job.pace * (job.epochs - job.epoch + (job.seeds - job.seed_number) * job.epochs)


def curves(store: Path, job_id: str) -> dict[int, dict[str, list[float | None]]]:
    """By seed: the epochs, and the loss and macro F1 (macro_f1_fg) of each; at most 500 points.

    Raises:
        JobError: the ID is none, or the store has no such job.
    """
    by_seed: dict[bytes, list[bytes]] = defaultdict(list)
    for line in _whole_lines(folder_of(store, job_id) / "epochs.jsonl"):
        # A line begins with its seed, so that only the lines which are shown need to be parsed.
        by_seed[line.partition(b",")[0]].append(line)
    found = {}
    for lines in by_seed.values():
        points = [point for line in _thinned(lines) if (point := _point(line)) is not None]
        if points:
            found[points[0]["seed"]] = {name: [p[name] for p in points] for name in ("epoch", "loss", "macro_f1_fg")}
    return found


def _point(line: bytes) -> dict[str, Any] | None:
    """What a line says of an epoch; None where it is not as a worker writes it."""
    try:
        tree = json.loads(line)
        whole = all(type(tree[name]) is int for name in ("seed", "epoch"))
        numbers = all(tree[name] is None or type(tree[name]) in (int, float) for name in ("loss", "macro_f1_fg"))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return tree if whole and numbers else None


def _whole_lines(path: Path) -> list[bytes]:
    """The lines of a file as far as they are written to their end."""
    try:
        return path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []


def _thinned(lines: list[bytes]) -> list[bytes]:
    """At most POINTS of the lines, evenly spread, with the first and the last."""
    if len(lines) <= POINTS:
        return lines
    return [lines[i * (len(lines) - 1) // (POINTS - 1)] for i in range(POINTS)]


def log_tail(store: Path, job_id: str, lines: int = 30) -> str:
    """The last lines of what the worker printed; empty where there is nothing.

    Raises:
        JobError: the ID is none, or the store has no such job.
    """
    path = folder_of(store, job_id) / "log.txt"
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL_BYTES))
        text = file.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-lines:])
