"""What a bench reports while it works."""

from dataclasses import dataclass
from pathlib import Path

from frostbench.benchmarks.runs.record import RunRecord


@dataclass(frozen=True)
class CacheOpened:
    """A cache was read and its split is known.

    Attributes:
        cache: its folder.
        table: content hash of its table.
        split: hash of the split.
        rows: rows by role.
        warnings: what the split says about itself.
    """

    cache: str
    table: str
    split: str
    rows: dict[str, int]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class RowStarted:
    """A row of the bench, with what is to be said about its options; all rows of a cache come before its first run.

    Attributes:
        cache: folder of the cache.
        row: name of the row.
        number: its place, from 1.
        rows: how many there are.
        warnings: sentences to show.
    """

    cache: str
    row: str
    number: int
    rows: int
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class RunSkipped:
    """A run is in the store already."""

    cache: str
    row: str
    seed: int
    key: str


@dataclass(frozen=True)
class RunEpoch:
    """An epoch of a run ended.

    Attributes:
        cache: folder of the cache.
        row: name of the row.
        seed: of the run.
        epoch: 1 for the first.
        epochs: the most that the run can take.
        loss: mean training objective over the epoch's steps.
        metrics: metrics of the selection rows.
        best_epoch: the best so far, which would be kept.
    """

    cache: str
    row: str
    seed: int
    epoch: int
    epochs: int
    loss: float
    metrics: dict[str, float | None]
    best_epoch: int


@dataclass(frozen=True)
class RunFold:
    """A run that is cross-validated was fitted once more.

    Attributes:
        cache: folder of the cache.
        row: name of the row.
        seed: of the run.
        done: fits so far.
        fits: how many it takes, the one on all rows included.
    """

    cache: str
    row: str
    seed: int
    done: int
    fits: int


@dataclass(frozen=True)
class RunDone:
    """A run was trained, evaluated and put into `folder`; one that was stopped has the reason stopped in its record."""

    cache: str
    row: str
    record: RunRecord
    folder: Path


@dataclass(frozen=True)
class RunFailed:
    """A run gave no head and is not in the store; the others go on.

    Attributes:
        cache: folder of the cache.
        row: name of the row.
        seed: of the run.
        message: why, and what to do.
    """

    cache: str
    row: str
    seed: int
    message: str


@dataclass(frozen=True)
class RunNoted:
    """Something that a person should know of a run that goes on.

    Attributes:
        cache: folder of the cache.
        row: name of the row.
        seed: of the run.
        message: a sentence.
    """

    cache: str
    row: str
    seed: int
    message: str


@dataclass(frozen=True)
class BenchStopped:
    """The bench was asked to stop; the next start trains anew what was cut short.

    Attributes:
        name: of the bench.
        trained: runs trained to their end.
    """

    name: str
    trained: int


@dataclass(frozen=True)
class BenchDone:
    """Every run of the bench is in the store, save those that failed.

    Attributes:
        name: of the bench.
        trained: runs trained now.
        skipped: runs found.
        records: the flat view of all runs of the store.
        unreadable: keys of runs whose record could not be read and is not in that view.
        failed: runs that gave no head; the next start trains them again.
    """

    name: str
    trained: int
    skipped: int
    records: Path
    unreadable: tuple[str, ...]
    failed: tuple[RunFailed, ...] = ()


BenchEvent = (
    CacheOpened
    | RowStarted
    | RunSkipped
    | RunEpoch
    | RunFold
    | RunDone
    | RunFailed
    | RunNoted
    | BenchStopped
    | BenchDone
)
