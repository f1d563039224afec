"""Training in a worker when the turn of its job has come; imports torch."""

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TextIO

import torch

from frostbench.app.jobs.files import is_stop_requested
from frostbench.app.jobs.messages import stopped_message
from frostbench.app.jobs.progress import Progress
from frostbench.app.jobs.records import Request, State, Status
from frostbench.benchmarks.auto.choose import with_choice
from frostbench.benchmarks.runs.events import (
    BenchDone,
    BenchEvent,
    CacheOpened,
    RowStarted,
    RunDone,
    RunEpoch,
    RunFailed,
    RunFold,
    RunNoted,
    RunSkipped,
)
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.settings.nouns import with_noun
from frostbench.benchmarks.settings.parsing import AUTO, SettingsError, parse
from frostbench.benchmarks.settings.plan import BenchSpec, expand

METRICS = ("macro_f1_fg", "balanced_accuracy", "accuracy", "nll")
"""Validation metrics logged per epoch: those that can select the epoch."""


def warm_up() -> None:
    """Build an optimiser so that torch does its lazy imports, which take seconds."""
    torch.optim.AdamW(torch.nn.Linear(1, 1).parameters())


def train(request: Request, progress: Progress) -> tuple[State, str]:
    """Train the requested runs and write their progress; return the final state and message.

    Raises:
        ValueError: the bench is invalid, or has more than one row or cache.
    """
    bench = parse(BenchSpec, request.bench)
    if bench.preset == AUTO:
        bench = with_chosen(bench, request.device, progress)
    _check_single_row(bench)
    stop, first, was_stopped = partial(is_stop_requested, progress.folder), 0.0, False
    displayed_seed: int | None = None
    seeds_with_epochs: set[int] = set()
    with (progress.folder / "epochs.jsonl").open("a", buffering=1, encoding="ascii") as epochs:
        for event in run_bench(bench, stop=stop, device=request.device, keep_stopped=True):
            holds = _count_holds(seeds_with_epochs, event)
            if stop():
                # The worker still has to write its end: without anything to save it could be killed before that.
                holds = max(holds, progress.status.holds)
            if isinstance(event, RunEpoch):
                _write_epoch(event, epochs)
                # Seeds that train together report in turn: the status follows one of them until it ends.
                displayed_seed = event.seed if progress.status.epoch == 0 else displayed_seed
                if event.seed != displayed_seed:
                    progress.hold(holds)
                    continue
                first = time.monotonic() if event.epoch == 1 else first
            else:
                log_event(event)
            status = after(progress.status, event, bench.seeds, time.monotonic() - first)
            soon = isinstance(event, RunEpoch | RunFold) and holds == progress.status.holds
            progress.show(replace(status, holds=holds), soon=soon)
            was_stopped = was_stopped or _is_stopped(event)
            if isinstance(event, BenchDone):
                return final_state(event)
    return "cancelled", stopped_message(progress.status, was_stopped)


def with_chosen(bench: BenchSpec, device: str, progress: Progress) -> BenchSpec:
    """Return the bench with the configuration that preset auto chooses, which the status then states.

    Raises:
        ValueError: no candidate can be trained, or the cache is damaged.
    """

    def show(done: int, fits: int) -> None:
        text = f"Choosing the settings by cross-validation on the training rows: fit {done} of {fits}."
        progress.show(replace(progress.status, message=text), soon=done < fits)

    found, choice = with_choice(bench, device, show)
    chosen = {"name": choice.name, "preset": found.preset, "base": dict(found.base), "reason": choice.reason}
    print(choice)
    warnings = progress.status.warnings + choice.warnings
    progress.show(replace(progress.status, message="", chosen=chosen, warnings=warnings))
    return found


def _count_holds(seeds: set[int], event: BenchEvent) -> int:
    """Update, after an event, the set of unfinished seeds that have a finished epoch; return its size."""
    if isinstance(event, RunEpoch):
        seeds.add(event.seed)
    elif isinstance(event, RunDone):
        seeds.discard(event.record.seed)
    elif isinstance(event, RunFailed):
        seeds.discard(event.seed)
    return len(seeds)


def final_state(event: BenchDone) -> tuple[State, str]:
    """Return the final state and message of a job, which failed if every run did."""
    failures = [f"seed {run.seed} failed: {run.message}" for run in event.failed]
    if not event.skipped and not event.trained:
        return "failed", " ".join(failures)
    return "done", "; ".join([f"{event.skipped} found, {event.trained} trained", *failures])


def after(status: Status, event: BenchEvent, seeds: Sequence[int], since_first: float) -> Status:
    """Return the status after an event; `since_first` is the time since the current seed's first epoch ended."""
    if isinstance(event, CacheOpened):
        return replace(status, warnings=status.warnings + event.warnings)
    if isinstance(event, RowStarted):
        return replace(status, warnings=status.warnings + event.warnings, seed_number=1, seeds=len(seeds))
    if isinstance(event, RunEpoch):
        best = event.metrics["macro_f1_fg"] if event.best_epoch == event.epoch else status.best
        pace = since_first / (event.epoch - 1) if event.epoch > 1 else status.pace
        at = replace(status, epoch=event.epoch, epochs=event.epochs)
        return replace(at, best=best, best_epoch=event.best_epoch, pace=pace, message="")
    if isinstance(event, RunFold):
        return replace(status, message=f"Cross-validation: fit {event.done} of {event.fits}.")
    if isinstance(event, RunFailed):
        return _next(replace(status, warnings=(*status.warnings, f"seed {event.seed} failed: {event.message}")))
    if isinstance(event, RunSkipped):
        return _next(_with_key(replace(status, found=status.found + 1), event.seed, event.key, seeds))
    if isinstance(event, RunDone):
        notes = tuple(f"seed {event.record.seed}: {note}" for note in event.record.notes)
        kept = _with_key(replace(status, warnings=status.warnings + notes), event.record.seed, event.record.key, seeds)
        return kept if _is_stopped(event) else _next(replace(kept, trained=status.trained + 1))
    return status


def _with_key(status: Status, seed: int, key: str, seeds: Sequence[int]) -> Status:
    keys = status.keys | {seed: key}
    return replace(status, keys={seed: keys[seed] for seed in seeds if seed in keys})


def _next(status: Status) -> Status:
    """Return the status after a run has ended, moved on to the next seed if there is one."""
    if status.seed_number == status.seeds:
        return status
    return replace(status, seed_number=status.seed_number + 1, epoch=0, best=None, best_epoch=0)


def _is_stopped(event: BenchEvent) -> bool:
    return isinstance(event, RunDone) and event.record.reason == "stopped"


def _check_single_row(bench: BenchSpec) -> None:
    rows = expand(bench)
    if (len(bench.caches), len(rows)) != (1, 1):
        raise SettingsError(
            f"A job must have one row on one cache, got {with_noun(len(rows), 'row')} on "
            f"{with_noun(len(bench.caches), 'cache')}. Remove `toggles` and `grid`, and name one cache."
        )


def _write_epoch(event: RunEpoch, file: TextIO) -> None:
    """Write a line that begins with the seed, by which readers group lines."""
    line = {"seed": event.seed, "epoch": event.epoch, "epochs": event.epochs, "loss": event.loss}
    file.write(json.dumps(line | {name: event.metrics[name] for name in METRICS}) + "\n")


def log_event(event: BenchEvent) -> None:
    """Print an event; the worker's output is the log of its job."""
    if isinstance(event, CacheOpened):
        print(f"{event.cache}: " + ", ".join(f"{role} {rows}" for role, rows in event.rows.items()))
    if isinstance(event, CacheOpened | RowStarted):
        for warning in event.warnings:
            print(f"note: {warning}")
    if isinstance(event, RunSkipped):
        print(f"seed {event.seed}: run {event.key} was already in the store")
    if isinstance(event, RunDone):
        record = event.record
        print(f"seed {record.seed}: run {record.key}, {record.reason}, epoch {record.epoch}, {record.seconds:.1f} s")
    if isinstance(event, RunNoted):
        print(f"note: seed {event.seed}: {event.message}")
    if isinstance(event, RunFailed):
        print(f"seed {event.seed}: FAILED, {event.message}")
    if isinstance(event, BenchDone) and event.unreadable:
        print(f"note: unreadable records are left out of {event.records}: {', '.join(event.unreadable)}")
