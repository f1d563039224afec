"""Running a bench: train what its store lacks, evaluate it, and keep it."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.canary import canary_of
from benchmarks.evaluate import data_facts, evaluate, record_of, with_recipes
from benchmarks.evaluate import table_to_data as table_to_data
from benchmarks.events import (
    BenchDone,
    BenchEvent,
    BenchStopped,
    CacheOpened,
    RowStarted,
    RunDone,
    RunEpoch,
    RunFailed,
    RunFold,
    RunSkipped,
)
from benchmarks.plan import BenchSpec, Row, expand
from benchmarks.record import BenchRows
from benchmarks.settings import SettingsError, run_key
from benchmarks.store import is_finished, save_run, stopped_key, write_records
from embedcache.backbones import resolve_device
from embedcache.splits import Split, load_or_make_split
from embedcache.table import FeatureTable, read_table
from heads.export import Canary
from training.checkpoint import Checkpoints
from training.checks import check_data
from training.crossval import CrossValidated, FoldFitted, check_runs, cross_validate
from training.data import Data
from training.engine import ENGINE_VERSION, fit, never
from training.events import Epoch, Event, Failed, Finished
from training.notes import notes_for
from training.run import RunSpec


@dataclass(frozen=True)
class _Work:
    """One cache of a bench, and whether its stopped runs are kept."""

    cache: str
    table: FeatureTable
    split: Split
    store: Path
    canary: Canary | None
    device: str
    keep_stopped: bool

    def key(self, spec: RunSpec) -> str:
        return _key(self.table, self.split, spec)


@dataclass(frozen=True)
class _Run:
    """A run that the store lacks, and its row."""

    row: str
    spec: RunSpec


def run_bench(
    bench: BenchSpec, *, stop: Callable[[], bool] = never, device: str = "cpu", keep_stopped: bool = False
) -> Iterator[BenchEvent]:
    """Train every run of a bench that its store lacks, and yield what happens.

    All missing runs of a cache are handed to the engine at once. It trains those of one skeleton as one stack and tells
    their epochs by turns; a run is kept as soon as it ends. A run without a head has failed, and the others go on.

    Args:
        bench: what to run.
        stop: asked after every epoch; finished runs then stay, and the next start trains the others anew, or from the
            last checkpoint of their stack where they took more than a minute.
        device: where training happens, such as cpu or cuda.
        keep_stopped: keep the best so far of a run that was stopped, under a key of its own (see `stopped_key`).

    Raises:
        SettingsError: the bench names no cache, or one of its rows is not possible.
        ValueError: a cache is unfinished or damaged, its split is not possible, options do not go together, or a row
            cannot be trained on a cache; the last is found before the cache's first epoch.
    """
    rows, store, where = _rows_of(bench), Path(bench.store), str(resolve_device(device))
    trained = skipped = 0
    failed: list[RunFailed] = []
    for cache in bench.caches:
        table, split = _opened(cache, bench, verify=True)
        work = _Work(cache, table, split, store, canary_of(Path(cache)), where, keep_stopped)
        yield CacheOpened(cache, table.content_hash, split.hash, split.report.counts, split.report.warnings)
        for event in _run_cache(work, rows, stop):
            trained += isinstance(event, RunDone) and event.record.reason != "stopped"
            skipped += isinstance(event, RunSkipped)
            failed += [event] if isinstance(event, RunFailed) else []
            yield event
        if stop():
            yield BenchStopped(bench.name, trained)
            return
    yield BenchDone(bench.name, trained, skipped, *write_records(store), tuple(failed))


def bench_rows(bench: BenchSpec) -> tuple[BenchRows, ...]:
    """Which runs are the rows of a bench on each of its caches, as file and caches are now; trained or not.

    Raises:
        SettingsError: the bench names no cache, or one of its rows is not possible.
        ValueError: a cache is unfinished or damaged, its split is not possible, or options do not go together.
    """
    rows, found = _rows_of(bench), []
    for cache in bench.caches:
        table, split = _opened(cache, bench)
        found.append(BenchRows(cache, {row.name: tuple(_key(table, split, s) for s in row.specs) for row in rows}))
    return tuple(found)


def _rows_of(bench: BenchSpec) -> tuple[Row, ...]:
    if not bench.caches:
        raise SettingsError("a bench needs caches, however: none came. Write `caches: [FOLDER]`.")
    return expand(bench)


def _opened(cache: str, bench: BenchSpec, verify: bool = False) -> tuple[FeatureTable, Split]:
    table = read_table(Path(cache), verify=verify)
    return table, load_or_make_split(Path(cache), table, bench.split)


def _key(table: FeatureTable, split: Split, spec: RunSpec) -> str:
    return run_key(spec, table.content_hash, split.hash, ENGINE_VERSION)


def _run_cache(work: _Work, rows: Sequence[Row], stop: Callable[[], bool]) -> Iterator[BenchEvent]:
    """Train the missing runs of all rows; vectors are only copied where something is missing."""
    missing = [_Run(row.name, s) for row in rows for s in row.specs if not is_finished(work.store, work.key(s))]
    data: Data | None = None
    if missing:
        data = table_to_data(work.table, work.split, device=work.device)
        _check(missing, data, work.split.folds is not None)
    n_train = int((work.split.roles == "train").sum())
    for number, row in enumerate(rows, start=1):
        notes = row.warnings + notes_for(row.specs[0], n_train)
        yield RowStarted(work.cache, row.name, number, len(rows), notes)
        for spec in row.specs:
            if _Run(row.name, spec) not in missing:
                yield RunSkipped(work.cache, row.name, spec.seed, work.key(spec))
    if data is not None:
        yield from _train(work, missing, data, stop)


def _check(runs: Sequence[_Run], data: Data, is_cross_validated: bool) -> None:
    """Refuse a row that cannot be trained before another has cost its time."""
    for row in dict.fromkeys(run.row for run in runs):
        specs = [run.spec for run in runs if run.row == row]
        try:
            check_runs(specs, data) if is_cross_validated else check_data(specs, data)
        except ValueError as error:
            raise ValueError(f"row {row!r}: {error}") from error


def _train(work: _Work, runs: Sequence[_Run], data: Data, stop: Callable[[], bool]) -> Iterator[BenchEvent]:
    specs = [run.spec for run in runs]
    curves: list[list[Epoch]] = [[] for _ in runs]
    for event in _events(work, specs, data, stop):
        run, curve = runs[event.run], curves[event.run]
        where, seed = (work.cache, run.row), run.spec.seed
        if isinstance(event, Epoch):
            curve.append(event)
            epochs = run.spec.epochs_for(len(data.train))
            yield RunEpoch(*where, seed, event.epoch, epochs, event.loss, event.metrics, event.best_epoch)
        elif isinstance(event, FoldFitted):
            yield RunFold(*where, seed, event.done, event.fits)
        elif isinstance(event, Failed):
            yield RunFailed(*where, seed, event.message)
        elif isinstance(event, CrossValidated):
            yield _keep(work, run, event.finished, curve, event.together, (event.logits, event.log_p))
        elif isinstance(event, Finished) and (event.reason != "stopped" or work.keep_stopped):
            yield _keep(work, run, event, curve, event.together)


def _events(
    work: _Work, specs: Sequence[RunSpec], data: Data, stop: Callable[[], bool]
) -> Iterator[Event | FoldFitted | CrossValidated]:
    """What happens to runs on the rows that a split gives to training; a long stack leaves checkpoints in the store."""
    split = work.split
    if split.folds is None:
        same_data = hashlib.sha256(f"{work.table.content_hash} {split.hash} {ENGINE_VERSION}".encode()).hexdigest()
        return fit(specs, data, stop, Checkpoints(work.store / "checkpoints" / same_data[:16]))
    return cross_validate(specs, data, torch.from_numpy(split.folds[:, split.roles == "train"]), stop)


def _keep(
    work: _Work,
    run: _Run,
    finished: Finished,
    curve: Sequence[Epoch],
    together: int,
    held_out: tuple[Tensor, Tensor] | None = None,
) -> RunDone:
    """Evaluate a run and put it into the store."""
    spec = run.spec
    background = tuple(work.table.class_names.index(name) for name in spec.background)
    head = with_recipes(finished.head, work.table)
    evaluations, outcomes = evaluate(head, work.table, work.split, background, held_out)
    data = data_facts(work.cache, work.table, work.split, head, background)
    key = stopped_key(work.key(spec), curve[-1].epoch) if finished.reason == "stopped" else work.key(spec)
    record = record_of(key, spec, replace(finished, head=head), curve, data, evaluations, work.device)
    record = replace(record, together=together)
    metrics = {role: evaluation.metrics for role, evaluation in evaluations.items()}
    facts = {"run": record.full_spec, "key": record.key, "data": asdict(data), "metrics": metrics}
    known = replace(head, facts=facts | {"environment": record.environment})
    return RunDone(work.cache, run.row, record, save_run(work.store, record, outcomes, known, work.canary))
