"""Reading jobs for display."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from frostbench.app.jobs import queue
from frostbench.app.jobs.files import folder_of, is_started, is_stop_requested, read_request
from frostbench.app.jobs.messages import KEEPING, STOPPING, waiting_message
from frostbench.app.jobs.plugins import disallowed_plugins, plugins_message
from frostbench.app.jobs.records import UNFINISHED, JobError, Status
from frostbench.app.jobs.state import current_status, older_jobs, unfinished

POINTS = 500
"""Maximum number of points of a curve; more cannot be distinguished on the page."""
TAIL_BYTES = 65_536
LOADING = "Loading the training code and the vectors."


@dataclass(frozen=True, kw_only=True)
class Job(Status):
    """Current status and request of a job.

    Attributes:
        id: ID of the job.
        side: A or B, or the kind of an experiment.
        title: display name of the job.
        bench: tree of the requested BenchSpec.
        rounds: number of rounds of successive halving that were requested, or 0.
        created: time of submission, in seconds since 1970.
        ahead: number of unfinished jobs before a queued job.
        stopping: whether stopping was requested and the job has not ended yet.
    """

    id: str
    side: str
    title: str = ""
    bench: dict[str, Any] = field(default_factory=dict)
    rounds: int = 0
    created: float = 0.0
    ahead: int = 0
    stopping: bool = False


def read(store: Path, job_id: str, plugins: Sequence[str | Path] | None = None) -> Job:
    """Read a job; a worker that has not stopped in time after a request to stop is killed.

    If `plugins` is given, the message of a waiting job names the plugins that it needs beyond these.

    Raises:
        JobError: the ID is invalid, the store has no such job, or its request.json is damaged.
    """
    folder = folder_of(store, job_id)
    request, status = read_request(folder), current_status(folder)
    ahead = len(unfinished(older_jobs(folder))) if status.state == "queued" else 0
    stopping = status.state in UNFINISHED and is_stop_requested(folder)
    message = (KEEPING if status.holds else STOPPING) if stopping else status.message or _default_message(status, ahead)
    if status.state == "queued" and plugins is not None and not is_started(folder):
        message = plugins_message(disallowed_plugins(request, plugins)) or message
    requested = {name: getattr(request, name) for name in ("side", "title", "bench", "rounds", "created")}
    fields: dict[str, Any] = requested | asdict(status) | {"message": message}
    return Job(id=job_id, ahead=ahead, stopping=stopping, **fields)


def _default_message(status: Status, ahead: int) -> str:
    if status.state == "queued":
        return waiting_message(ahead)
    is_loading = status.state == "running" and status.seed_number == 0 and status.share is None
    return LOADING if is_loading else ""


def jobs(store: Path) -> list[str]:
    """Return the IDs of the jobs of a store, newest first."""
    return queue.job_ids(Path(store) / "jobs")[::-1]


def list_jobs(store: Path, ended: int = 5, plugins: Sequence[str | Path] | None = None) -> tuple[list[Job], int]:
    """Return all unfinished jobs and the newest `ended` ended ones, newest first, and the number of omitted jobs.

    A job whose request cannot be read is listed as failed. `plugins` are those of `read`.
    """
    home, listed, omitted = Path(store) / "jobs", [], 0
    for job_id in jobs(store):
        has_ended = current_status(home / job_id).state not in UNFINISHED
        if has_ended and ended == 0:
            omitted += 1
            continue
        ended -= has_ended
        try:
            listed.append(read(store, job_id, plugins))
        except JobError as error:
            listed.append(Job(id=job_id, side="", state="failed", message=str(error)))
    return listed, omitted


def newest(store: Path, side: str) -> str | None:
    """Return the ID of the newest job of a side whose request is readable, or None if there is none."""
    for job_id in jobs(store):
        try:
            if read_request(folder_of(store, job_id)).side == side:
                return job_id
        except JobError:
            continue
    return None


def share_done(job: Job) -> float:
    """Return the share of a job's epochs over all runs that is done, in percent."""
    if job.state == "done":
        return 100.0
    if job.share is not None:
        return 100 * min(1.0, max(0.0, job.share))
    within = job.epoch / job.epochs if job.epochs else 0.0
    return 100 * min(1.0, (max(0, job.seed_number - 1) + within) / max(1, job.seeds))


def eta_seconds(job: Status) -> float | None:
    """Return the maximum remaining time of a running job at its current pace, or None if unknown.

    >>> from dataclasses import replace
    >>> job = Job(id="20261128-034512-123456-a1b2", side="A", state="running", pace=0.5)
    >>> eta_seconds(replace(job, seed_number=1, seeds=2, epoch=10, epochs=50))
    45.0
    """
    if job.state != "running" or job.pace is None:
        return None
    if job.share is not None:
        return job.pace * (1 - job.share)
    return job.pace * (job.epochs - job.epoch + (job.seeds - job.seed_number) * job.epochs)


def curves(store: Path, job_id: str) -> dict[int, dict[str, list[float | None]]]:
    """Return by seed the epochs with their loss and validation macro F1 (macro_f1_fg), thinned to 500 points.

    Raises:
        JobError: the ID is invalid, or the store has no such job.
    """
    by_seed: dict[bytes, list[bytes]] = defaultdict(list)
    for line in _complete_lines(folder_of(store, job_id) / "epochs.jsonl"):
        # A line begins with its seed, so that only the lines that are kept need to be parsed.
        by_seed[line.partition(b",")[0]].append(line)
    found = {}
    for lines in by_seed.values():
        points = [point for line in _thinned(lines) if (point := _parse_point(line)) is not None]
        if points:
            found[points[0]["seed"]] = {name: [p[name] for p in points] for name in ("epoch", "loss", "macro_f1_fg")}
    return found


def _parse_point(line: bytes) -> dict[str, Any] | None:
    """Parse a line about an epoch; return None if it is malformed."""
    try:
        tree = json.loads(line)
        has_integers = all(type(tree[name]) is int for name in ("seed", "epoch"))
        has_numbers = all(tree[name] is None or type(tree[name]) in (int, float) for name in ("loss", "macro_f1_fg"))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return tree if has_integers and has_numbers else None


def _complete_lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []


def _thinned(lines: list[bytes]) -> list[bytes]:
    """Return at most POINTS evenly spaced lines, including the first and the last."""
    if len(lines) <= POINTS:
        return lines
    return [lines[i * (len(lines) - 1) // (POINTS - 1)] for i in range(POINTS)]


def log_tail(store: Path, job_id: str, lines: int = 30) -> str:
    """Return the last lines of the worker's output; empty if there is none.

    Raises:
        JobError: the ID is invalid, or the store has no such job.
    """
    path = folder_of(store, job_id) / "log.txt"
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL_BYTES))
        text = file.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-lines:])
