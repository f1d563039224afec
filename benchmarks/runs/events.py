"""Events that a bench yields while it runs."""

from dataclasses import dataclass
from pathlib import Path

from frostbench.benchmarks.runs.record import RunRecord


@dataclass(frozen=True)
class CacheOpened:
    """Event: a cache was opened and its split is known.

    Attributes:
        cache: folder of the cache.
        table: content hash of its table.
        split: hash of the split.
        rows: number of rows by role.
        warnings: warnings about the split.
    """

    cache: str
    table: str
    split: str
    rows: dict[str, int]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class RowStarted:
    """Event: a row of the bench, with warnings about its options; yielded for all rows before the first run.

    Attributes:
        cache: folder of the cache.
        row: name of the row.
        number: position of the row, from 1.
        rows: number of rows.
        warnings: sentences to show.
    """

    cache: str
    row: str
    number: int
    rows: int
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class RoundStarted:
    """Event: a round of successive halving starts.

    Attributes:
        number: position of the round, from 1.
        rounds: number of rounds.
        settings: number of settings that it trains.
        epochs: number of epochs that its schedule states.
    """

    number: int
    rounds: int
    settings: int
    epochs: int


@dataclass(frozen=True)
class RunEvent:
    """Event of one run, given by the folder of its cache, the name of its row and its seed."""

    cache: str
    row: str
    seed: int


@dataclass(frozen=True)
class RunSkipped(RunEvent):
    """Event: a run is already in the store, under this key."""

    key: str


@dataclass(frozen=True)
class RunEpoch(RunEvent):
    """Event: an epoch of a run ended.

    Attributes:
        epoch: epoch number, from 1.
        epochs: maximum number of epochs of the run.
        loss: mean training objective over the steps of the epoch.
        metrics: metrics of the validation rows.
        best_epoch: best epoch so far.
    """

    epoch: int
    epochs: int
    loss: float
    metrics: dict[str, float | None]
    best_epoch: int


@dataclass(frozen=True)
class RunFold(RunEvent):
    """Event: a cross-validated run has finished `done` of its `fits` fits, which include the final one on all rows."""

    done: int
    fits: int


@dataclass(frozen=True)
class RunDone:
    """Event: a run was trained, evaluated and stored in `folder`; the record of a stopped run has reason "stopped"."""

    cache: str
    row: str
    record: RunRecord
    folder: Path


@dataclass(frozen=True)
class RunFailed(RunEvent):
    """Event: a run failed, for the reason in `message`, and is not in the store; the other runs continue."""

    message: str


@dataclass(frozen=True)
class RunNoted(RunEvent):
    """Event: a note, in `message`, on a run that continues."""

    message: str


@dataclass(frozen=True)
class RunsElsewhere:
    """Event: nothing is left but runs that other processes are training; the bench waits for them.

    Attributes:
        cache: folder of the cache.
        runs: number of these runs.
        holders: descriptions of the processes.
    """

    cache: str
    runs: int
    holders: tuple[str, ...]


@dataclass(frozen=True)
class BenchStopped:
    """Event: the bench `name` was stopped on request after `trained` runs; the next start trains the others."""

    name: str
    trained: int


@dataclass(frozen=True)
class BenchDone:
    """Event: every run of the bench is in the store, except for failed runs.

    Attributes:
        name: name of the bench.
        trained: number of runs trained now.
        skipped: number of runs that were already in the store.
        records: path of the flat view of all runs of the store.
        unreadable: keys of runs that are missing from that view because their record could not be read.
        failed: failed runs; the next start trains them again.
    """

    name: str
    trained: int
    skipped: int
    records: Path
    unreadable: tuple[str, ...]
    failed: tuple[RunFailed, ...] = ()


BenchEvent = CacheOpened | RowStarted | RoundStarted | RunEvent | RunDone | RunsElsewhere | BenchStopped | BenchDone
