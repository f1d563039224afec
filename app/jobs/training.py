"""What a worker does when the turn of its job has come; imports torch."""

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TextIO

import torch

from frostbench.app.jobs.files import Request, State, Status, asked_to_stop
from frostbench.app.jobs.progress import Progress
from frostbench.app.jobs.words import stopped
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
from frostbench.benchmarks.settings.parsing import SettingsError, parse
from frostbench.benchmarks.settings.plan import BenchSpec, expand

METRICS = ("macro_f1_fg", "balanced_accuracy", "accuracy", "nll")
"""Metrics of the selection rows that are written down for each epoch: those that can choose the epoch."""


def warm_up() -> None:
    """Have torch import what it only imports when the first optimiser is built, which takes seconds too."""
    torch.optim.AdamW(torch.nn.Linear(1, 1).parameters())


def train(request: Request, progress: Progress) -> tuple[State, str]:
    """Train what is asked for, and write down how far it is; returns how it ended, and a sentence about it.

    Raises:
        ValueError: the bench is not possible, or has more than one row or cache.
    """
    bench = parse(BenchSpec, request.bench)
    _check_one(bench)
    stop, first, cut = partial(asked_to_stop, progress.folder), 0.0, False
    shown: int | None = None
    holding: set[int] = set()
    with (progress.folder / "epochs.jsonl").open("a", buffering=1, encoding="ascii") as epochs:
        for event in run_bench(bench, stop=stop, device=request.device, keep_stopped=True):
            holds = _hold(holding, event)
            if isinstance(event, RunEpoch):
                _write_epoch(event, epochs)
                # Seeds that train together report by turns: the status follows one of them until it ends.
                shown = event.seed if progress.status.epoch == 0 else shown
                if event.seed != shown:
                    progress.hold(holds)
                    continue
                first = time.monotonic() if event.epoch == 1 else first
            else:
                _log(event)
            status = after(progress.status, event, bench.seeds, time.monotonic() - first)
            soon = isinstance(event, RunEpoch | RunFold) and holds == progress.status.holds
            progress.show(replace(status, holds=holds), soon=soon)
            cut = cut or _is_stopped(event)
            if isinstance(event, BenchDone):
                return ended(event)
    return "cancelled", stopped(progress.status, cut)


def _hold(seeds: set[int], event: BenchEvent) -> int:
    """How many runs at work have finished an epoch after an event; their seeds are kept in the set."""
    if isinstance(event, RunEpoch):
        seeds.add(event.seed)
    elif isinstance(event, RunDone):
        seeds.discard(event.record.seed)
    elif isinstance(event, RunFailed):
        seeds.discard(event.seed)
    return len(seeds)


def ended(event: BenchDone) -> tuple[State, str]:
    """How a job ended, and a sentence about it: it failed where every run did."""
    failures = [f"seed {each.seed} failed: {each.message}" for each in event.failed]
    if not event.skipped and not event.trained:
        return "failed", " ".join(failures)
    return "done", "; ".join([f"{event.skipped} found, {event.trained} trained", *failures])


def after(status: Status, event: BenchEvent, seeds: Sequence[int], since_first: float) -> Status:
    """The status after an event of the bench; since_first is the time since the seed at work ended its first epoch."""
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
        said = tuple(f"seed {event.record.seed}: {note}" for note in event.record.notes)
        kept = _with_key(replace(status, warnings=status.warnings + said), event.record.seed, event.record.key, seeds)
        return kept if _is_stopped(event) else _next(replace(kept, trained=status.trained + 1))
    return status


def _with_key(status: Status, seed: int, key: str, seeds: Sequence[int]) -> Status:
    keys = status.keys | {seed: key}
    return replace(status, keys={seed: keys[seed] for seed in seeds if seed in keys})


def _next(status: Status) -> Status:
    """The status when a run has ended: the next seed is at work, where there is one."""
    if status.seed_number == status.seeds:
        return status
    return replace(status, seed_number=status.seed_number + 1, epoch=0, best=None, best_epoch=0)


def _is_stopped(event: BenchEvent) -> bool:
    return isinstance(event, RunDone) and event.record.reason == "stopped"


def _check_one(bench: BenchSpec) -> None:
    rows = expand(bench)
    if (len(bench.caches), len(rows)) != (1, 1):
        raise SettingsError(
            f"a job is one row on one cache, however: {len(rows)} rows on {len(bench.caches)} caches came. Leave out "
            "toggles and grid, and name one cache."
        )


def _write_epoch(event: RunEpoch, file: TextIO) -> None:
    """Write a line that begins with the seed: readers choose lines by it."""
    where = {"seed": event.seed, "epoch": event.epoch, "epochs": event.epochs, "loss": event.loss}
    file.write(json.dumps(where | {name: event.metrics[name] for name in METRICS}) + "\n")


def _log(event: BenchEvent) -> None:
    if isinstance(event, CacheOpened):
        print(f"{event.cache}: " + ", ".join(f"{role} {rows}" for role, rows in event.rows.items()))
    if isinstance(event, CacheOpened | RowStarted):
        for warning in event.warnings:
            print(f"note: {warning}")
    if isinstance(event, RunSkipped):
        print(f"seed {event.seed}: run {event.key} was in the store")
    if isinstance(event, RunDone):
        record = event.record
        print(f"seed {record.seed}: run {record.key}, {record.reason}, epoch {record.epoch}, {record.seconds:.1f} s")
    if isinstance(event, RunNoted):
        print(f"note: seed {event.seed}: {event.message}")
    if isinstance(event, RunFailed):
        print(f"seed {event.seed}: FAILED, {event.message}")
    if isinstance(event, BenchDone) and event.unreadable:
        print(f"note: records that cannot be read are left out of {event.records}: {', '.join(event.unreadable)}")
