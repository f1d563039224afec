"""Training the rows of an experiment in a worker: each change alone and all together, or a search; imports torch.

Runs that were not finished when the job is cancelled are not kept, other than those of a side: there may be hundreds of
them. If the experiment is started again, finished runs are found in the store, and long stacks go on from their
checkpoint.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from frostbench.app.jobs.files import is_stop_requested
from frostbench.app.jobs.messages import with_finished
from frostbench.app.jobs.progress import Progress
from frostbench.app.jobs.records import Request, State, Status
from frostbench.app.jobs.training import log_event
from frostbench.benchmarks.runs.events import (
    BenchDone,
    BenchEvent,
    CacheOpened,
    RoundStarted,
    RowStarted,
    RunDone,
    RunEpoch,
    RunFailed,
    RunFold,
    RunSkipped,
)
from frostbench.benchmarks.runs.halving import chosen_by_halving, last_round, planned_rounds, run_halving
from frostbench.benchmarks.runs.keys import bench_rows, rows_of
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.store import is_finished
from frostbench.benchmarks.runs.tuning import NAMES, chosen_rows
from frostbench.benchmarks.settings.nouns import with_noun
from frostbench.benchmarks.settings.parsing import SettingsError, parse
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.heads.titles import label_of
from frostbench.training.run import RunSpec

MOST_FAILURES = 3
"""Maximum number of failed runs that the final message describes."""
MOST_WARNINGS = 20
"""Maximum number of warnings that the status keeps; the log has all of them."""


@dataclass
class Count:
    """Counts the ended runs of an experiment, and the epochs of the others.

    Attributes:
        runs: number of runs over all rounds.
        ended: number of runs that were found, trained or have failed.
        parts: share of each unfinished run that is done, by row and seed.
        began: time and share at the end of the first epoch, from which the time left follows.
    """

    runs: int
    ended: int = 0
    parts: dict[tuple[str, int], float] = field(default_factory=dict)
    began: tuple[float, float] | None = None

    @property
    def share(self) -> float:
        """Share of the experiment that is done."""
        return min(1.0, (self.ended + sum(self.parts.values())) / max(1, self.runs))

    def add(self, event: BenchEvent) -> None:
        """Count an event."""
        if isinstance(event, RunEpoch):
            self.parts[event.row, event.seed] = event.epoch / event.epochs
        elif isinstance(event, RunFold):
            self.parts[event.row, event.seed] = event.done / event.fits
        elif isinstance(event, RunDone | RunFailed | RunSkipped):
            self.parts.pop((event.row, event.record.seed if isinstance(event, RunDone) else event.seed), None)
            self.ended += 1
        if self.began is None and isinstance(event, RunEpoch | RunFold | RunDone):
            self.began = (time.monotonic(), self.share)

    @property
    def pace(self) -> float | None:
        """Seconds that the whole experiment takes at the pace since the first epoch, or None before."""
        if self.began is None or self.share <= self.began[1]:
            return None
        return (time.monotonic() - self.began[0]) / (self.share - self.began[1])


def train_experiment(request: Request, progress: Progress) -> tuple[State, str]:
    """Train the runs of an experiment and write their progress; return the final state and message.

    Raises:
        ValueError: the bench is invalid, has more than one cache, or cannot be trained by successive halving.
    """
    bench = parse(BenchSpec, request.bench)
    if len(bench.caches) != 1:
        raise SettingsError(f"An experiment needs one cache, got {len(bench.caches)}. Name one.")
    stop = partial(is_stop_requested, progress.folder)
    count = Count(_runs(bench, request.rounds))
    progress.show(replace(progress.status, seeds=count.runs, share=0.0))
    for event in _events(bench, request, stop):
        count.add(event)
        log_event(event)
        status = replace(_after(progress.status, event), share=count.share, pace=count.pace)
        progress.show(status, soon=isinstance(event, RunEpoch | RunFold | RunSkipped | RowStarted))
        if isinstance(event, BenchDone):
            return _end(bench, request, progress, event)
    return "cancelled", with_finished("Stopped.", progress.status)


def _runs(bench: BenchSpec, rounds: int) -> int:
    settings = sum(part.settings for part in planned_rounds(bench, rounds)) if rounds else len(rows_of(bench))
    return settings * len(bench.seeds)


def _events(bench: BenchSpec, request: Request, stop: partial[bool]) -> Iterator[BenchEvent]:
    if request.rounds:
        return run_halving(bench, request.rounds, stop=stop, device=request.device)
    return run_bench(bench, stop=stop, device=request.device)


def _after(status: Status, event: BenchEvent) -> Status:
    """Return the status after an event."""
    if isinstance(event, RoundStarted):
        settings, epochs = with_noun(event.settings, "setting"), with_noun(event.epochs, "epoch")
        return replace(status, message=f"Round {event.number} of {event.rounds}: {settings} for {epochs}.")
    if isinstance(event, CacheOpened | RowStarted):
        new = [text for text in event.warnings if text not in status.warnings]
        return replace(status, warnings=(*status.warnings, *new)[:MOST_WARNINGS])
    if isinstance(event, RunSkipped):
        return replace(status, found=status.found + 1)
    if isinstance(event, RunDone):
        return replace(status, trained=status.trained + 1)
    if isinstance(event, RunFailed):
        text = f"{event.row}, seed {event.seed} failed: {event.message}"
        return replace(status, warnings=(*status.warnings, text)[:MOST_WARNINGS])
    return status


def _end(bench: BenchSpec, request: Request, progress: Progress, event: BenchDone) -> tuple[State, str]:
    """Write which runs were trained and, for a search, which setting is the best; return the final state."""
    failures = [f"{run.row}, seed {run.seed} failed: {run.message}" for run in event.failed[:MOST_FAILURES]]
    more = [f"{len(event.failed) - MOST_FAILURES} more failed"] if len(event.failed) > MOST_FAILURES else []
    message = "; ".join([f"{event.skipped} found, {event.trained} trained", *failures, *more])
    if not event.skipped and not event.trained:
        return "failed", message
    last = last_round(bench, request.rounds).bench if request.rounds else bench
    (part,) = bench_rows(last)
    keys = [key for row in part.rows.values() for key in row if is_finished(progress.folder.parent.parent, key)]
    status = replace(progress.status, keys=dict(enumerate(keys)), message="", share=1.0)
    if bench.tune:
        status = replace(status, chosen=best_of(bench, request.rounds))
        message = f"{message}. {status.chosen['reason']}"
    progress.show(status)
    return "done", message


def best_of(bench: BenchSpec, rounds: int) -> dict[str, Any]:
    """Return the best setting of a search by validation rows, as `Status.chosen` states it.

    Args:
        bench: bench of the search, whose row is trained in full.
        rounds: number of rounds of successive halving, or 0; their runs are in the store.

    Raises:
        StoreError: no setting has a value for every seed.
    """
    (part,) = (chosen_by_halving(bench, rounds),) if rounds else chosen_rows(bench)
    (tuned,) = part.tuned.values()
    winner = tuned.winner
    name = ", ".join(f"{label_of(RunSpec, path, None)} {_text(value)}" for path, value in winner.changes.items())
    mean = f", mean of {len(bench.seeds)} seeds" if len(bench.seeds) > 1 else ""
    value = "" if winner.value is None else f" ({NAMES[bench.tune_by]} {winner.value:.3f}{mean})"
    edge = f" At the edge of the values tried: {'; '.join(tuned.edges)}." if tuned.edges else ""
    tie = " All settings perform equally." if tuned.is_tied else ""
    reason = f"Best on the validation images: {name or 'B as it is'}{value}.{edge}{tie}"
    return {"name": name, "preset": bench.preset, "base": dict(bench.base) | winner.changes, "reason": reason}


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
