"""Trains the runs that a store lacks, one stack at a time, beside other processes that do the same."""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace

import torch

from frostbench.benchmarks.inference.canary import canary_for
from frostbench.benchmarks.runs.claims import Claims
from frostbench.benchmarks.runs.evaluate import evaluate, with_recipes
from frostbench.benchmarks.runs.events import (
    BenchEvent,
    RunDone,
    RunEpoch,
    RunFailed,
    RunFold,
    RunNoted,
    RunsElsewhere,
    RunSkipped,
)
from frostbench.benchmarks.runs.failures import failure_since, mark_failed
from frostbench.benchmarks.runs.run_facts import data_facts, record_of
from frostbench.benchmarks.runs.store import is_finished, save_run, stopped_key
from frostbench.benchmarks.runs.work import Run, Work
from frostbench.heads.posthoc.crossfit import CrossFitted
from frostbench.training.checks.notes import falling_notes, sureness_notes
from frostbench.training.crossval.crossval import CrossValidated, FoldFitted, cross_validate, groups_of
from frostbench.training.data.part import Data
from frostbench.training.engine.checkpoint import Checkpoints
from frostbench.training.engine.events import Epoch, Event, Failed, Finished, Noted, Started
from frostbench.training.engine.fit import ENGINE_VERSION, fit
from frostbench.training.engine.grouping import grouped
from frostbench.training.run import RunSpec

POLL_SECONDS = 0.5
"""Pause before it is checked again whether other processes have finished their runs."""


def train_missing(work: Work, runs: Sequence[Run], data: Data, stop: Callable[[], bool]) -> Iterator[BenchEvent]:
    """Train runs stack by stack; runs that another process trains are left to it and reported once they are stored.

    A stack is claimed just before it is trained, so processes that start together train different stacks. If the other
    process ends without storing a run, this one trains it. `data` has been checked (`check_work`).
    """
    waiting = [[runs[number] for number in numbers] for numbers in _stacks(work, [run.spec for run in runs], data)]
    with Claims(work.store) as claims:
        began, is_told = claims.now(), False
        while waiting:
            left: list[list[Run]] = []
            for stack in waiting:
                taken = set(claims.take([run.key for run in stack]))
                # Another process may have stored a run, and released its claim, since the last look.
                ended = {run.key for run in stack if _has_ended(work, run, began)}
                claims.release(sorted(taken & ended))
                for run in stack:
                    if run.key in ended:
                        yield from _ended_elsewhere(work, run, began)
                if mine := [run for run in stack if run.key in taken - ended]:
                    yield from train_stack(work, mine, data, stop)
                    claims.release([run.key for run in mine])
                if stop():
                    return
                if rest := [run for run in stack if run.key not in taken | ended]:
                    left.append(rest)
            if left and len(left) == len(waiting):
                if not is_told:
                    keys = [run.key for stack in left for run in stack]
                    yield RunsElsewhere(work.cache, len(keys), tuple(claims.holders(keys)))
                    is_told = True
                time.sleep(POLL_SECONDS)
            waiting = left


def _stacks(work: Work, specs: Sequence[RunSpec], data: Data) -> list[list[int]]:
    """Group the indices of runs that are fitted together."""
    folds = work.split.folds
    return grouped(specs, data) if folds is None else groups_of(specs, data, len(folds))


def _has_ended(work: Work, run: Run, began: float) -> bool:
    return is_finished(work.store, run.key) or failure_since(work.store, run.key, began) is not None


def _ended_elsewhere(work: Work, run: Run, began: float) -> Iterator[RunSkipped | RunFailed]:
    """Report a run that another process has stored, or that failed there."""
    message = failure_since(work.store, run.key, began)
    for row in run.rows:
        if message is None:
            yield RunSkipped(work.cache, row, run.spec.seed, run.key)
        else:
            yield RunFailed(work.cache, row, run.spec.seed, message)


def train_stack(work: Work, runs: Sequence[Run], data: Data, stop: Callable[[], bool]) -> Iterator[BenchEvent]:
    """Train runs that this process has claimed."""
    specs = [run.spec for run in runs]
    curves: list[list[Epoch]] = [[] for _ in runs]
    epochs: dict[int, int] = {}
    for event in _events(work, specs, data, stop):
        run, curve = runs[event.run], curves[event.run]
        where, seed = (work.cache, run.row), run.spec.seed
        if isinstance(event, Started):
            epochs[event.run] = event.epochs
        elif isinstance(event, Epoch):
            curve.append(event)
            yield RunEpoch(*where, seed, event.epoch, epochs[event.run], event.loss, event.metrics, event.best_epoch)
        elif isinstance(event, Noted):
            yield RunNoted(*where, seed, event.message)
        elif isinstance(event, FoldFitted):
            yield RunFold(*where, seed, event.done, event.fits)
        elif isinstance(event, Failed):
            mark_failed(work.store, run.key, event.message)
            yield from (RunFailed(work.cache, row, seed, event.message) for row in run.rows)
        elif isinstance(event, CrossValidated):
            yield from _stored(work, run, event.finished, curve, event.stack_size, event.predictions)
        elif isinstance(event, Finished) and (event.reason != "stopped" or work.keep_stopped):
            yield from _stored(work, run, event, curve, event.stack_size, event.held_out)


def _events(
    work: Work, specs: Sequence[RunSpec], data: Data, stop: Callable[[], bool]
) -> Iterator[Event | FoldFitted | CrossValidated]:
    """Train runs, with cross-validation if the split has folds; long stacks save checkpoints in the store."""
    split = work.split
    if split.folds is None:
        same_data = hashlib.sha256(f"{work.reads} {split.hash} {ENGINE_VERSION}".encode()).hexdigest()
        checkpoints = Checkpoints(work.store / "checkpoints" / same_data[:16])
        return fit(specs, data, stop, checkpoints, is_checked=True)
    folds = torch.from_numpy(split.folds[:, split.roles == "train"])
    return cross_validate(specs, data, folds, stop, is_checked=True)


def _stored(
    work: Work,
    run: Run,
    finished: Finished,
    curve: Sequence[Epoch],
    together: int,
    held_out: CrossFitted | None = None,
) -> Iterator[RunDone | RunSkipped]:
    """Evaluate a run and store it; the other rows that share it are reported as skipped."""
    spec = run.spec
    background = tuple(work.table.class_names.index(name) for name in spec.background)
    head = with_recipes(finished.head, work.table)
    evaluations, outcomes = evaluate(head, work.table, work.split, background, held_out)
    data = data_facts(work.cache, work.table, work.split, head, background)
    key = stopped_key(run.key, curve[-1].epoch) if finished.reason == "stopped" else run.key
    record = record_of(key, spec, replace(finished, head=head), curve, data, evaluations, work.device)
    validation = outcomes[outcomes["role"] == "select"]
    notes = record.notes + falling_notes(spec, [event.loss for event in curve], finished.epoch)
    notes += sureness_notes(validation["confidence"], validation["label"] == validation["predicted"])
    record = replace(record, together=together, notes=notes)
    own_notes = [note for note in notes if note not in head.warnings]  # the card lists head.warnings separately
    metrics = {role: evaluation.metrics for role, evaluation in evaluations.items()}
    facts = {"run": record.full_spec, "key": record.key, "data": asdict(data), "metrics": metrics, "notes": own_notes}
    head = replace(head, facts=facts | {"environment": record.environment})
    canary = canary_for(work.canary, head.columns, work.table.tokens)
    yield RunDone(work.cache, run.row, record, save_run(work.store, record, outcomes, head, canary))
    if finished.reason != "stopped":
        yield from (RunSkipped(work.cache, row, spec.seed, key) for row in run.rows[1:])
