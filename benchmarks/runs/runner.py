"""Running a bench: train what its store lacks, evaluate it, and keep it."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from frostbench.benchmarks.inference.canary import canary_for, canary_of
from frostbench.benchmarks.runs.all_runs import write_records
from frostbench.benchmarks.runs.ensembles import Place, averaged, check_judged
from frostbench.benchmarks.runs.evaluate import data_facts, evaluate, record_of, with_recipes
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
from frostbench.benchmarks.runs.store import check_run_place, check_store, is_finished, save_run, stopped_key
from frostbench.benchmarks.runs.streaming import Stream, opened_to_train
from frostbench.benchmarks.runs.view_sets import data_hash, rows_of_pass, with_averaged, with_views
from frostbench.benchmarks.settings.plan import BenchSpec, Row
from frostbench.embedcache.backbones import resolve_device
from frostbench.embedcache.splits.cuts import merge_groups
from frostbench.embedcache.splits.making import Split
from frostbench.embedcache.table import FeatureTable
from frostbench.heads.bundle.export import Canary
from frostbench.heads.posthoc.crossfit import CrossFitted
from frostbench.training.checks.corrections import correction_notes
from frostbench.training.checks.data import check_data
from frostbench.training.checks.notes import (
    epoch_notes,
    falling_notes,
    notes_for,
    order_notes,
    posthoc_notes,
    sureness_notes,
)
from frostbench.training.checks.posthoc import ROLES, rows_of_posthoc
from frostbench.training.crossval.crossval import CrossValidated, FoldFitted, check_runs, cross_validate
from frostbench.training.data.part import Data
from frostbench.training.data.view_rows import stepped_rows
from frostbench.training.engine.checkpoint import Checkpoints
from frostbench.training.engine.events import Epoch, Event, Failed, Finished, Noted
from frostbench.training.engine.fit import ENGINE_VERSION, fit, never
from frostbench.training.run import RunSpec


@dataclass(frozen=True)
class _Work:
    """One cache of a bench, why its vectors stay on disk where they do, and whether its stopped runs are kept.

    What its rows read, view sets included, is hashed in reads: a checkpoint belongs to it.
    """

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
    """A run that the store lacks, and the rows that it stands in: more than one where settings of theirs are equal."""

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
    """Train every run of a bench that its store lacks, and yield what happens.

    All missing runs of a cache are handed to the engine at once. It trains those of one skeleton as one stack and tells
    their epochs by turns; a run is kept as soon as it ends. A run without a head has failed, and the others go on. A
    run that stands in several rows of a tuned bench is trained for the first; the others find it when it has ended.
    Ensembles are judged last, from the heads of their rows.

    Args:
        bench: what to run.
        stop: asked after every epoch; finished runs then stay, and the next start trains the others anew, or from the
            last checkpoint of their stack where they took more than a minute.
        device: where training happens, such as cpu or cuda.
        keep_stopped: keep the best so far of a run that was stopped, under a key of its own (see `stopped_key`).
        stream: whether vectors stay on disk; it changes no result (see `opened_to_train`).

    Raises:
        SettingsError: the bench names no cache, or one of its rows is not possible.
        ValueError: a cache is unfinished or damaged, its split is not possible, options do not go together, or a row
            cannot be trained on a cache; the last is found before the cache's first epoch.
        OutputError: the store cannot be written.
        StoreError: a folder without a record lies where a run would be kept.
    """
    rows, store, where = rows_of(bench), Path(bench.store), str(resolve_device(device))
    check_store(store)
    trained = skipped = 0
    failed: list[RunFailed] = []
    for cache in bench.caches:
        table, split, on_disk = opened_to_train(cache, bench, rows, where, stream)
        table = with_averaged(table, split, [spec for row in rows for spec in row.specs])
        check_judged(bench, split)
        reads = " ".join(sorted({data_hash(table, spec) for row in rows for spec in row.specs}))
        work = _Work(cache, table, split, store, canary_of(Path(cache)), where, keep_stopped, on_disk, reads)
        warnings = split.report.warnings + ((f"vectors stay on disk: {on_disk}",) if on_disk else ())
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


def _run_cache(work: _Work, rows: Sequence[Row], stop: Callable[[], bool], told: int) -> Iterator[BenchEvent]:
    """Train the missing runs of all rows; vectors are only copied where something is missing."""
    missing = _missing(work, rows)
    data: Data | None = None
    if missing:
        data = table_to_data(work.table, work.split, device=work.device)
        data = with_views(data, work.table, work.split, [run.spec for run in missing.values()])
        _check(work, list(missing.values()), data)
    labels = torch.from_numpy(work.table.labels[work.split.roles == "train"])
    for number, row in enumerate(rows, start=1):
        stepped = rows_of_pass(work.table, row.specs[0], len(labels))
        notes = row.warnings + notes_for(row.specs[0], stepped) + order_notes(row.specs[0], labels)
        notes += epoch_notes(row.specs[0], *_selection(work, row.specs[0]))
        notes += posthoc_notes(row.specs[0], _posthoc_labels(work, row.specs[0]))
        notes += correction_notes(row.specs[0], labels, len(work.table.class_names), _train_groups(work))
        yield RowStarted(work.cache, row.name, number, told, notes)
        for spec in row.specs:
            if (key := work.key(spec)) not in missing:
                yield RunSkipped(work.cache, row.name, spec.seed, key)
    if data is not None:
        yield from _train(work, list(missing.values()), data, stop)


def _train_groups(work: _Work) -> Tensor | None:
    """The group of each training row, numbered; None where the table states none."""
    if not work.table.has_groups:
        return None
    groups = merge_groups(work.table.groups, work.table.content)[work.split.roles == "train"]
    return torch.from_numpy(np.unique(groups, return_inverse=True)[1])


def _selection(work: _Work, spec: RunSpec) -> tuple[Tensor, tuple[int, ...]]:
    """Labels of the rows that epochs are chosen by, and indices of the background classes."""
    chosen = work.split.roles == ("select" if work.split.folds is None else "train")
    background = tuple(work.table.class_names.index(n) for n in spec.background if n in work.table.class_names)
    return torch.from_numpy(work.table.labels[chosen]), background


def _posthoc_labels(work: _Work, spec: RunSpec) -> Tensor:
    """Labels of the rows that calibration and decisions are fitted to."""
    labels, roles = work.table.labels, work.split.roles
    if work.split.folds is not None:
        return torch.from_numpy(labels[roles == "train"])
    trained = np.isin(labels, labels[roles == "train"])
    groups = len(np.unique(merge_groups(work.table.groups, work.table.content)[roles == "select"]))
    name = rows_of_posthoc(spec.posthoc, int((trained & (roles == "calibrate")).sum()), groups)
    return torch.from_numpy(labels[trained & np.isin(roles, ROLES[name])])


def _missing(work: _Work, rows: Sequence[Row]) -> dict[str, _Run]:
    """The runs that the store lacks by key, in the order of the rows."""
    found: dict[str, _Run] = {}
    for row in rows:
        for spec in row.specs:
            key = work.key(spec)
            if key in found:
                found[key] = replace(found[key], rows=(*found[key].rows, row.name))
            elif not is_finished(work.store, key):
                check_run_place(work.store, key)
                found[key] = _Run((row.name,), spec)
    return found


def _check(work: _Work, runs: Sequence[_Run], data: Data) -> None:
    """Refuse a row that cannot be trained before another has cost its time."""
    for row in dict.fromkeys(run.row for run in runs):
        specs = [run.spec for run in runs if run.row == row]
        try:
            check_data(specs, data) if work.split.folds is None else check_runs(specs, data)
        except ValueError as error:
            why = f" They stay on disk, for {work.on_disk}." if work.on_disk else ""
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
            yield from _kept(work, run, event.finished, curve, event.stack_size, event.predictions)
        elif isinstance(event, Finished) and (event.reason != "stopped" or work.keep_stopped):
            yield from _kept(work, run, event, curve, event.stack_size, event.held_out)


def _events(
    work: _Work, specs: Sequence[RunSpec], data: Data, stop: Callable[[], bool]
) -> Iterator[Event | FoldFitted | CrossValidated]:
    """What happens to runs on the rows that a split gives to training; a long stack leaves checkpoints in the store."""
    split = work.split
    if split.folds is None:
        same_data = hashlib.sha256(f"{work.reads} {split.hash} {ENGINE_VERSION}".encode()).hexdigest()
        return fit(specs, data, stop, Checkpoints(work.store / "checkpoints" / same_data[:16]))
    return cross_validate(specs, data, torch.from_numpy(split.folds[:, split.roles == "train"]), stop)


def _kept(
    work: _Work,
    run: _Run,
    finished: Finished,
    curve: Sequence[Epoch],
    together: int,
    held_out: CrossFitted | None = None,
) -> Iterator[RunDone | RunSkipped]:
    """Evaluate a run and put it into the store, where all its rows find it."""
    spec = run.spec
    background = tuple(work.table.class_names.index(name) for name in spec.background)
    head = with_recipes(finished.head, work.table)
    evaluations, outcomes = evaluate(head, work.table, work.split, background, held_out)
    data = data_facts(work.cache, work.table, work.split, head, background)
    key = stopped_key(work.key(spec), curve[-1].epoch) if finished.reason == "stopped" else work.key(spec)
    record = record_of(key, spec, replace(finished, head=head), curve, data, evaluations, work.device)
    judged = outcomes[outcomes["role"] == "select"]
    notes = record.notes + falling_notes(spec, [event.loss for event in curve], finished.epoch)
    notes += sureness_notes(judged["confidence"], judged["label"] == judged["predicted"])
    record = replace(record, together=together, notes=notes)
    told = [note for note in notes if note not in head.warnings]  # which the card has in a field of their own
    metrics = {role: evaluation.metrics for role, evaluation in evaluations.items()}
    facts = {"run": record.full_spec, "key": record.key, "data": asdict(data), "metrics": metrics, "notes": told}
    known = replace(head, facts=facts | {"environment": record.environment})
    canary = canary_for(work.canary, head.columns, work.table.tokens)
    yield RunDone(work.cache, run.row, record, save_run(work.store, record, outcomes, known, canary))
    if finished.reason != "stopped":
        yield from (RunSkipped(work.cache, row, spec.seed, key) for row in run.rows[1:])
