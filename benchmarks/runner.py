"""Running a bench: train what its store lacks, evaluate it, and keep it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

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
from training.checks import check_data
from training.data import Data
from training.engine import ENGINE_VERSION, fit, never
from training.events import Epoch, Finished
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


def run_bench(
    bench: BenchSpec, *, stop: Callable[[], bool] = never, device: str = "cpu", keep_stopped: bool = False
) -> Iterator[BenchEvent]:
    """Train every run of a bench that its store lacks, and yield what happens.

    Args:
        bench: what to run.
        stop: asked after every epoch; finished runs then stay, and the next start trains the others anew.
        device: where training happens, such as cpu or cuda.
        keep_stopped: keep the best so far of a run that was stopped, under a key of its own (see `stopped_key`).

    Raises:
        SettingsError: the bench names no cache, or one of its rows is not possible.
        ValueError: a cache is unfinished or damaged, its split is not possible, options do not go together, or a row
            cannot be trained on a cache; the last is found before the cache's first epoch.
    """
    rows, store, where = _rows_of(bench), Path(bench.store), str(resolve_device(device))
    trained = skipped = 0
    for cache in bench.caches:
        table, split = _opened(cache, bench, verify=True)
        work = _Work(cache, table, split, store, canary_of(Path(cache)), where, keep_stopped)
        yield CacheOpened(cache, table.content_hash, split.hash, split.report.counts, split.report.warnings)
        for event in _run_cache(work, rows, stop):
            trained += isinstance(event, RunDone) and event.record.reason != "stopped"
            skipped += isinstance(event, RunSkipped)
            yield event
        if stop():
            yield BenchStopped(bench.name, trained)
            return
    yield BenchDone(bench.name, trained, skipped, *write_records(store))


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
    """Train the missing runs of every row; vectors are only copied where something is missing."""
    missing = {row.name: [s for s in row.specs if not is_finished(work.store, work.key(s))] for row in rows}
    data: Data | None = None
    if any(missing.values()):
        data = table_to_data(work.table, work.split, device=work.device)
        _check(missing, data)
    n_train = int((work.split.roles == "train").sum())
    for number, row in enumerate(rows, start=1):
        notes = row.warnings + notes_for(row.specs[0], n_train)
        yield RowStarted(work.cache, row.name, number, len(rows), notes)
        for spec in row.specs:
            if spec not in missing[row.name]:
                yield RunSkipped(work.cache, row.name, spec.seed, work.key(spec))
        if data is not None and missing[row.name]:
            yield from _train(work, row.name, missing[row.name], data, stop)
        if stop():
            return


def _check(missing: Mapping[str, Sequence[RunSpec]], data: Data) -> None:
    """Refuse a row that cannot be trained before another has cost its time."""
    for name, specs in missing.items():
        try:
            check_data(specs, data)
        except ValueError as error:
            raise ValueError(f"row {name!r}: {error}") from error


def _train(
    work: _Work, row: str, specs: Sequence[RunSpec], data: Data, stop: Callable[[], bool]
) -> Iterator[BenchEvent]:
    curves: list[list[Epoch]] = [[] for _ in specs]
    for event in fit(specs, data, stop):
        spec = specs[event.run]
        if isinstance(event, Epoch):
            curves[event.run].append(event)
            epochs = spec.epochs_for(len(data.train))
            loss, metrics, best = event.loss, event.metrics, event.best_epoch
            yield RunEpoch(work.cache, row, spec.seed, event.epoch, epochs, loss, metrics, best)
        elif isinstance(event, Finished) and (event.reason != "stopped" or work.keep_stopped):
            yield _keep(work, row, spec, event, curves[event.run])


def _keep(work: _Work, row: str, spec: RunSpec, finished: Finished, curve: Sequence[Epoch]) -> RunDone:
    """Evaluate a run and put it into the store."""
    background = tuple(work.table.class_names.index(name) for name in spec.background)
    head = with_recipes(finished.head, work.table)
    evaluations, outcomes = evaluate(head, work.table, work.split, background)
    data = data_facts(work.cache, work.table, work.split, head, background)
    key = stopped_key(work.key(spec), curve[-1].epoch) if finished.reason == "stopped" else work.key(spec)
    record = record_of(key, spec, replace(finished, head=head), curve, data, evaluations, work.device)
    metrics = {role: evaluation.metrics for role, evaluation in evaluations.items()}
    facts = {"run": record.full_spec, "key": record.key, "data": asdict(data), "metrics": metrics}
    known = replace(head, facts=facts | {"environment": record.environment})
    return RunDone(work.cache, row, record, save_run(work.store, record, outcomes, known, work.canary))
