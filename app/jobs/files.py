"""The folder of a job, and what its files hold.

    STORE/jobs/ID/request.json    what is to be trained, written by whoever asked for it
    STORE/jobs/ID/mark            that this user asked for it on this machine (`frostbench.app.jobs.mark`)
    STORE/jobs/ID/starter.json    which process started its worker
    STORE/jobs/ID/process.json    which process works on it
    STORE/jobs/ID/status.json     how far it is, written by the worker only
    STORE/jobs/ID/epochs.jsonl    one line for each epoch
    STORE/jobs/ID/log.txt         what the worker printed
    STORE/jobs/ID/end.json        room for its last words, for when the disk is full
    STORE/jobs/ID/cancel          it is asked to stop, and since when

An ID (`frostbench.app.jobs.ids`) is like 20261128-034512-123456-a1b2.
"""

import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from frostbench.app.depth import DEEPEST, is_too_deep
from frostbench.app.jobs.ids import is_id

SIDES = ("A", "B")
UNFINISHED = ("queued", "running")
State = Literal["queued", "running", "done", "cancelled", "failed", "lost", "foreign"]
T = TypeVar("T", "Request", "Status", "Process", "Asked")

LARGEST = 2**53
"""No number of a job is larger; beyond it JSON's numbers are no longer exact."""
DEEPEST_FILE = 2 * DEEPEST
"""Levels of a file: those of a value of the form, and the tree in which it stands."""
LATER = ("holds", "folder", "keys")
"""Fields that files of earlier versions lack."""


class JobError(ValueError):
    """A job is not in the store, its name or a file of it is damaged, or it cannot be asked for like this."""


@dataclass(frozen=True)
class Request:
    """What is to be trained.

    Attributes:
        side: A or B.
        title: how a person calls it.
        bench: tree of a BenchSpec with one row and one cache.
        slots: how many jobs of the store may train at a time.
        device: where training happens, such as cpu or cuda.
        created: when it was asked for, in seconds since 1970.
        folder: the current directory of whoever asked for it, from which relative paths count.
        keys: the runs that it stands for by seed; empty where they were not known.
    """

    side: str
    title: str
    bench: dict[str, Any]
    slots: int
    device: str
    created: float
    folder: str = ""
    keys: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # JSON knows no numbers as keys.
        object.__setattr__(self, "keys", {int(seed): str(key) for seed, key in self.keys.items()})


@dataclass(frozen=True)
class Status:
    """How far a job is.

    Attributes:
        state: queued, running, done, cancelled, failed, lost, or foreign: it waits, and was not asked for by this user
            on this machine.
        message: a sentence about the state; empty while it trains.
        began: when its turn came, in seconds since 1970.
        ended: when it ended; None while it has not, and where it is lost.
        seed_number: place of the seed at work, from 1; 0 before the first.
        seeds: how many there are; 0 as long as nobody knows.
        epoch: of the seed at work; 0 before the first, and for a solver.
        epochs: the most that the seed at work can take.
        best: macro F1 of the selection rows in the best epoch of the seed at work; None before the first.
        best_epoch: the epoch that would be kept.
        keys: run key by seed, in the order of the seeds: finished runs, and the best so far of one that was stopped.
        warnings: what the bench says about its split and options.
        trained: runs that it trained to their end.
        found: runs that were in the store already.
        pace: seconds for an epoch of the seed at work.
        holds: runs at work that have finished an epoch, the best of which is kept when the job is stopped.

    Raises:
        ValueError: there is no such state, or a seed is no number.
    """

    state: State = "queued"
    message: str = ""
    began: float | None = None
    ended: float | None = None
    seed_number: int = 0
    seeds: int = 0
    epoch: int = 0
    epochs: int = 0
    best: float | None = None
    best_epoch: int = 0
    keys: dict[int, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    trained: int = 0
    found: int = 0
    pace: float | None = None
    holds: int = 0

    def __post_init__(self) -> None:
        if self.state not in get_args(State):
            raise ValueError(f"the state of a job is one of {get_args(State)}, however: {self.state!r} came.")
        # JSON knows neither numbers as keys nor tuples.
        object.__setattr__(self, "keys", {int(seed): key for seed, key in self.keys.items()})
        object.__setattr__(self, "warnings", tuple(self.warnings))


@dataclass(frozen=True)
class Process:
    """A process, told apart from a later one with the same pid by values that a change of the clock leaves alone.

    Attributes:
        pid: its number.
        boot: the start of the machine that it belongs to; empty where the system does not name it.
        start: when it was started: in ticks since that start of the machine, or in seconds since 1970 where boot is
            empty.
    """

    pid: int
    boot: str
    start: float


@dataclass(frozen=True)
class Asked:
    """When a job was asked to stop, by a clock that only goes forward while the machine runs.

    Attributes:
        boot: the start of the machine, as of `Process`.
        seconds: of `time.monotonic`, which all processes of a machine share; when it was asked last.
        force: whether it was asked again, which means not to wait for what could be kept.
    """

    boot: str
    seconds: float
    force: bool = False


def folder_of(store: Path, job_id: str) -> Path:
    """The folder of a job.

    Raises:
        JobError: the ID is none, or the store has no such job.
    """
    if not is_id(job_id):
        raise JobError(
            f"a job is called like 20261128-034512-123456-a1b2, however: {job_id[:100]!r} came. Choose one of the list."
        )
    folder = Path(store) / "jobs" / job_id
    if not folder.is_dir():
        raise JobError(f"a job must be in its store, however: {store} has no job {job_id}. Was its folder removed?")
    return folder


def is_started(folder: Path) -> bool:
    """Whether somebody has started a worker for a job."""
    return (folder / "starter.json").exists() or (folder / "process.json").exists()


def asked_to_stop(folder: Path) -> bool:
    """Whether a job was asked to stop."""
    return (folder / "cancel").exists()


def read_asked(folder: Path) -> Asked | None:
    """Since when a job is asked to stop; None where it is not, or where the file does not say."""
    try:
        return _read(folder / "cancel", Asked)
    except JobError:
        return None


def write_json(path: Path, content: Request | Status | Process | Asked) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part of it."""
    partial = path.with_name(f".{path.name}-{os.getpid()}")
    partial.write_text(json.dumps(asdict(content)), encoding="ascii")
    partial.replace(path)


def read_end(folder: Path) -> Status | None:
    """The last words of a job that could not write its status any more; None where there are none."""
    path = folder / "end.json"
    try:
        return _read(path, Status) if path.read_bytes().strip() else None
    except (FileNotFoundError, JobError):
        return None


def read_request(folder: Path) -> Request:
    """What a job is to train.

    Raises:
        JobError: it is missing or damaged.
    """
    request = _read(folder / "request.json", Request)
    if request is None:
        raise JobError(f"a job needs its request.json, however: {folder.name} has none. Ask for the job again.")
    return request


def parsed_request(content: bytes) -> Request:
    """What the content of a request.json asks for.

    Raises:
        JobError: it is damaged.
    """
    return _parsed("request.json", content, Request)


def read_status(folder: Path) -> Status | None:
    """What the worker of a job wrote last; None where it has not written anything.

    Raises:
        JobError: it is damaged.
    """
    return _read(folder / "status.json", Status)


def read_process(folder: Path) -> Process | None:
    """The process of a job; None where it has none yet.

    Raises:
        JobError: it is damaged.
    """
    return _read(folder / "process.json", Process)


def _fits(value: Any, hint: Any) -> bool:
    """Whether what JSON holds is of a field's type: a store may come from anywhere, and what it says is shown."""
    origin, inside = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin is Literal:
        return value in inside
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in inside)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(each, inside[1]) for each in value.values())
    if origin is tuple:
        return isinstance(value, list) and all(_fits(each, inside[0]) for each in value)
    if hint in (int, float):
        is_number = isinstance(value, int if hint is int else int | float) and not isinstance(value, bool)
        return is_number and not abs(value) > LARGEST
    return isinstance(value, hint)


def read_starter(folder: Path) -> Process | None:
    """The process that was about to start that of a job; None where nobody was yet.

    Raises:
        JobError: it is damaged.
    """
    return _read(folder / "starter.json", Process)


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return _parsed(path.name, path.read_bytes(), kind)
    except FileNotFoundError:
        return None


def _parsed(name: str, content: bytes, kind: type[T]) -> T:
    try:
        tree = json.loads(content)
        if is_too_deep(tree, DEEPEST_FILE):
            raise ValueError(f"values are nested {DEEPEST_FILE} deep at most")
        there = [f for f in fields(kind) if f.name in tree or f.name not in LATER]
        wrong = [f.name for f in there if not _fits(tree[f.name], f.type)]
        if wrong:
            raise ValueError(f"{', '.join(wrong)} of another type")
        return kind(**{f.name: tree[f.name] for f in there})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise JobError(f"{name} of a job must be as it was written, however: it is damaged ({error}).") from error
