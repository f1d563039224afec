"""The dataclasses that the files of a job hold."""

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

SIDES = ("A", "B")
EXPERIMENTS = ("changes", "search")
"""What a job may train in place of a side: each change of B alone and all together, or a search around B."""
UNFINISHED = ("queued", "running")
CHOSEN = frozenset({"name", "preset", "reason"})
State = Literal["queued", "running", "done", "cancelled", "failed", "lost", "foreign"]


class JobError(ValueError):
    """A job does not exist, has an invalid ID or a damaged file, or cannot be submitted as requested."""


@dataclass(frozen=True)
class Request:
    """The request to train one row of a bench, or all rows of an experiment.

    Attributes:
        side: A or B, or the kind of an experiment (`EXPERIMENTS`).
        title: display name of the job.
        bench: tree of a BenchSpec with one row, or with the rows of an experiment, and one cache.
        slots: number of jobs of the store that may train at the same time.
        device: device to train on, such as cpu or cuda.
        created: time of submission, in seconds since 1970.
        folder: current directory of the submitting process, which relative paths start from.
        keys: run keys by seed, or by number for an experiment; empty if they were not known at submission.
        rounds: number of rounds of successive halving; 0 if all settings are trained in full.
    """

    side: str
    title: str
    bench: dict[str, Any]
    slots: int
    device: str
    created: float
    folder: str = ""
    keys: dict[int, str] = field(default_factory=dict)
    rounds: int = 0

    def __post_init__(self) -> None:
        # JSON object keys are strings.
        object.__setattr__(self, "keys", {int(seed): str(key) for seed, key in self.keys.items()})


@dataclass(frozen=True)
class Status:
    """The state and progress of a job.

    Attributes:
        state: queued, running, done, cancelled, failed, lost, or foreign: waiting, but not submitted by this user on
            this machine.
        message: a sentence about the state; empty during training.
        began: time when the job's turn came, in seconds since 1970, or None before.
        ended: time when the job ended, or None if it is unfinished or lost.
        seed_number: index of the current seed, from 1; 0 before the first.
        seeds: number of seeds, or of all runs of an experiment; 0 until it is known.
        epoch: current epoch of the current seed; 0 before the first, and for a solver.
        epochs: maximum number of epochs of the current seed.
        best: validation macro F1 of the current seed's best epoch, or None before the first epoch.
        best_epoch: best epoch of the current seed so far; 0 before the first epoch.
        keys: run key by seed, in the order of the seeds, of finished runs and of a stopped run that was kept; for an
            experiment, those of all its finished runs by number (with successive halving, of the last round).
        warnings: warnings of the bench about its split and options.
        trained: number of runs that were trained to the end.
        found: number of runs that were already in the store.
        pace: seconds per epoch of the current seed; for an experiment, seconds that all of it takes.
        holds: number of current runs with a finished epoch, which is kept if the job is stopped.
        chosen: what preset auto chose, or the best setting of a search: `name`, `preset`, `base` (its changes of the
            preset) and `reason`; else empty.
        share: share of an experiment that is done, from 0 to 1; None for a side.

    Raises:
        ValueError: the state is unknown, a seed is not a number, or `chosen` states something else.
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
    chosen: dict[str, Any] = field(default_factory=dict)
    share: float | None = None

    def __post_init__(self) -> None:
        if self.state not in get_args(State):
            raise ValueError(f"The state of a job must be one of {get_args(State)}, got {self.state!r}.")
        texts = {name: value for name, value in self.chosen.items() if name != "base"}
        if not set(texts) <= CHOSEN or not all(isinstance(value, str) for value in texts.values()):
            raise ValueError(
                f"What auto chose must state {sorted(CHOSEN)} as text and base, got {sorted(self.chosen)}."
            )
        # JSON has string keys and no tuples.
        object.__setattr__(self, "keys", {int(seed): key for seed, key in self.keys.items()})
        object.__setattr__(self, "warnings", tuple(self.warnings))


@dataclass(frozen=True)
class Process:
    """A process, identified by its pid and start time, so that a reused pid is recognised.

    Attributes:
        pid: process ID.
        boot: ID of the machine's boot that the process belongs to; empty if the system has none.
        start: start time of the process, in ticks since that boot, or in seconds since 1970 if boot is empty.
    """

    pid: int
    boot: str
    start: float


@dataclass(frozen=True)
class StopRequest:
    """A request to stop a job, timed by a clock that never goes back while the machine runs.

    Attributes:
        boot: ID of the machine's boot, as in `Process`.
        seconds: `time.monotonic` of the last request; all processes of a machine share this clock.
        force: whether stopping was requested twice, which means not to wait for results to be saved.
    """

    boot: str
    seconds: float
    force: bool = False
