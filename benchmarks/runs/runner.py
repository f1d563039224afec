"""Runs a bench: trains the runs that its store lacks, evaluates them and stores them."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path

import torch

from frostbench.benchmarks.inference.canary import canary_for, canary_of
from frostbench.benchmarks.runs.all_runs import write_records
from frostbench.benchmarks.runs.ensembles import Place, averaged, check_judged
from frostbench.benchmarks.runs.evaluate import evaluate, with_recipes
from frostbench.benchmarks.runs.evaluate import table_to_data as table_to_data
from frostbench.benchmarks.runs.events import (
    BenchDone,
    BenchEvent,
    BenchStopped,
    CacheOpened,
    RowStarted,
    RunDone,
    RunEpoch,
    RunFailed,
    RunFold,
    RunNoted,
    RunSkipped,
)
from frostbench.benchmarks.runs.failures import mark_failed
from frostbench.benchmarks.runs.keys import bench_rows as bench_rows
from frostbench.benchmarks.runs.keys import key_of, rows_of
from frostbench.benchmarks.runs.row_notes import notes_on_row
from frostbench.benchmarks.runs.run_facts import data_facts, record_of
from frostbench.benchmarks.runs.store import check_run_place, check_store, is_finished, save_run, stopped_key
from frostbench.benchmarks.runs.streaming import Stream, opened_to_train
from frostbench.benchmarks.runs.view_sets import data_hash, with_averaged, with_views
from frostbench.benchmarks.settings.plan import BenchSpec, Row
from frostbench.embedcache.backbones import resolve_device
from frostbench.embedcache.splits.making import Split
from frostbench.embedcache.table import FeatureTable
from frostbench.heads.bundle.export import Canary
from frostbench.heads.posthoc.crossfit import CrossFitted
from frostbench.training.checks.data import check_data
from frostbench.training.checks.notes import falling_notes, sureness_notes
from frostbench.training.crossval.crossval import CrossValidated, FoldFitted, check_runs, cross_validate
from frostbench.training.data.part import Data
from frostbench.training.data.view_rows import stepped_rows
from frostbench.training.engine.checkpoint import Checkpoints
from frostbench.training.engine.events import Epoch, Event, Failed, Finished, Noted
from frostbench.training.engine.fit import ENGINE_VERSION, fit, never
from frostbench.training.run import RunSpec


@dataclass(frozen=True)
class _Work:
    """One cache of a bench; `on_disk` states why vectors stay on disk, `reads` hashes the data that all rows read."""

    cache: str
    table: FeatureTable
    split: Split
    store: Path
    canary: Canary | None
    device: str
    keep_stopped: bool
    on_disk: str
    reads: str

    def key(self, spec: RunSpec) -> str:
        return key_of(self.table, self.split, spec)


@dataclass(frozen=True)
class _Run:
    """Run that the store lacks, and its rows: several rows share a run if their settings are equal."""

    rows: tuple[str, ...]
    spec: RunSpec

    @property
    def row(self) -> str:
        return self.rows[0]


def run_bench(
    bench: BenchSpec,
    *,
    stop: Callable[[], bool] = never,
    device: str = "cpu",
    keep_stopped: bool = False,
    stream: Stream = "auto",
) -> Iterator[BenchEvent]:
    """Train every run of a bench that its store lacks, and yield events.

    All missing runs of a cache are passed to the engine together. Each run is stored as soon as it ends; if a run
    fails, the others continue. A run shared by several rows is trained once. Ensembles are evaluated last.

    Args:
        bench: bench to run.
        stop: called after every epoch; if it returns True, the bench stops. The next start trains unfinished runs
            again, or resumes from a checkpoint if training took more than a minute.
        device: device for training, such as cpu or cuda.
        keep_stopped: whether to store the best epoch so far of stopped runs, under a separate key (see `stopped_key`).
        stream: whether vectors stay on disk; it does not affect results (see `opened_to_train`).

    Raises:
        SettingsError: the bench names no cache, or a row is invalid.
        ValueError: a cache is unfinished or damaged, its split is not possible, options conflict, or a row cannot be
            trained on a cache; the last is reported before the cache's first epoch.
        OutputError: the store cannot be written.
        StoreError: the folder of a run holds other files and no record.
    """
    rows, store = rows_of(bench), Path(bench.store)
    check_store(store)
    trained = skipped = 0
    failed: list[RunFailed] = []
    for cache in bench.caches:
        work = _opened(bench, cache, rows, str(resolve_device(device)), keep_stopped, stream)
        table, split = work.table, work.split
        warnings = split.report.warnings + ((f"Vectors stay on disk: {work.on_disk}.",) if work.on_disk else ())
        yield CacheOpened(cache, table.content_hash, split.hash, split.report.counts, warnings)
        runs = _run_cache(work, rows, stop, len(rows) + len(bench.ensembles))
        for event in chain(runs, averaged(bench, rows, Place(store, cache, table, split), len(rows), stop)):
            trained += isinstance(event, RunDone) and event.record.reason != "stopped"
            skipped += isinstance(event, RunSkipped)
            failed += [event] if isinstance(event, RunFailed) else []
            yield event
        if stop():
            yield BenchStopped(bench.name, trained)
            return
    yield BenchDone(bench.name, trained, skipped, *write_records(store), tuple(failed))


def _opened(
    bench: BenchSpec, cache: str, rows: Sequence[Row], device: str, keep_stopped: bool, stream: Stream
) -> _Work:
    specs = [spec for row in rows for spec in row.specs]
    table, split, on_disk = opened_to_train(cache, bench, rows, device, stream)
    table = with_averaged(table, split, specs)
    check_judged(bench, split)
    reads = " ".join(sorted({data_hash(table, spec) for spec in specs}))
    canary = canary_of(Path(cache))
    return _Work(cache, table, split, Path(bench.store), canary, device, keep_stopped, on_disk, reads)


def _run_cache(work: _Work, rows: Sequence[Row], stop: Callable[[], bool], n_rows: int) -> Iterator[BenchEvent]:
    """Train the missing runs of all rows; vectors are only copied if a run is missing."""
    missing = _missing(work, rows)
    data: Data | None = None
    if missing:
        data = table_to_data(work.table, work.split, device=work.device)
        data = with_views(data, work.table, work.split, [run.spec for run in missing.values()])
        _check(work, list(missing.values()), data)
    for number, row in enumerate(rows, start=1):
        notes = row.warnings + notes_on_row(work.table, work.split, row.specs[0])
        yield RowStarted(work.cache, row.name, number, n_rows, notes)
        for spec in row.specs:
            if (key := work.key(spec)) not in missing:
                yield RunSkipped(work.cache, row.name, spec.seed, key)
    if data is not None:
        yield from _train(work, list(missing.values()), data, stop)


def _missing(work: _Work, rows: Sequence[Row]) -> dict[str, _Run]:
    """Return, by key, the runs that the store lacks, in the order of the rows."""
    missing: dict[str, _Run] = {}
    for row in rows:
        for spec in row.specs:
            key = work.key(spec)
            if key in missing:
                missing[key] = replace(missing[key], rows=(*missing[key].rows, row.name))
            elif not is_finished(work.store, key):
                check_run_place(work.store, key)
                missing[key] = _Run((row.name,), spec)
    return missing


def _check(work: _Work, runs: Sequence[_Run], data: Data) -> None:
    """Before any training starts, reject rows that cannot be trained."""
    for row in dict.fromkeys(run.row for run in runs):
        specs = [run.spec for run in runs if run.row == row]
        try:
            check_data(specs, data) if work.split.folds is None else check_runs(specs, data)
        except ValueError as error:
            why = f" Vectors stay on disk: {work.on_disk}." if work.on_disk else ""
            raise ValueError(f"row {row!r}: {error}{why}") from error


def _train(work: _Work, runs: Sequence[_Run], data: Data, stop: Callable[[], bool]) -> Iterator[BenchEvent]:
    specs = [run.spec for run in runs]
    curves: list[list[Epoch]] = [[] for _ in runs]
    for event in _events(work, specs, data, stop):
        run, curve = runs[event.run], curves[event.run]
        where, seed = (work.cache, run.row), run.spec.seed
        if isinstance(event, Epoch):
            curve.append(event)
            epochs = run.spec.epochs_for(stepped_rows(run.spec, data))
            yield RunEpoch(*where, seed, event.epoch, epochs, event.loss, event.metrics, event.best_epoch)
        elif isinstance(event, Noted):
            yield RunNoted(*where, seed, event.message)
        elif isinstance(event, FoldFitted):
            yield RunFold(*where, seed, event.done, event.fits)
        elif isinstance(event, Failed):
            mark_failed(work.store, work.key(run.spec), event.message)
            yield from (RunFailed(work.cache, row, seed, event.message) for row in run.rows)
        elif isinstance(event, CrossValidated):
            yield from _stored(work, run, event.finished, curve, event.stack_size, event.predictions)
        elif isinstance(event, Finished) and (event.reason != "stopped" or work.keep_stopped):
            yield from _stored(work, run, event, curve, event.stack_size, event.held_out)


def _events(
    work: _Work, specs: Sequence[RunSpec], data: Data, stop: Callable[[], bool]
) -> Iterator[Event | FoldFitted | CrossValidated]:
    """Train runs, with cross-validation if the split has folds; long stacks save checkpoints in the store."""
    split = work.split
    if split.folds is None:
        same_data = hashlib.sha256(f"{work.reads} {split.hash} {ENGINE_VERSION}".encode()).hexdigest()
        return fit(specs, data, stop, Checkpoints(work.store / "checkpoints" / same_data[:16]))
    return cross_validate(specs, data, torch.from_numpy(split.folds[:, split.roles == "train"]), stop)


def _stored(
    work: _Work,
    run: _Run,
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
    key = stopped_key(work.key(spec), curve[-1].epoch) if finished.reason == "stopped" else work.key(spec)
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
