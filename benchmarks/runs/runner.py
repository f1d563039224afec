"""Runs a bench: trains the runs that its store lacks, evaluates them and stores them."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from frostbench.benchmarks.runs.all_runs import write_records
from frostbench.benchmarks.runs.claims import Claims
from frostbench.benchmarks.runs.ensembles import Place, averaged
from frostbench.benchmarks.runs.evaluate import table_to_data as table_to_data
from frostbench.benchmarks.runs.events import (
    BenchDone,
    BenchEvent,
    BenchStopped,
    CacheOpened,
    RowStarted,
    RunDone,
    RunFailed,
    RunSkipped,
)
from frostbench.benchmarks.runs.keys import bench_rows as bench_rows
from frostbench.benchmarks.runs.keys import rows_of
from frostbench.benchmarks.runs.row_notes import notes_on_row
from frostbench.benchmarks.runs.store import check_store
from frostbench.benchmarks.runs.streaming import Stream
from frostbench.benchmarks.runs.train_missing import train_missing
from frostbench.benchmarks.runs.view_sets import with_views
from frostbench.benchmarks.runs.work import Work, check_work, missing_runs, open_work
from frostbench.benchmarks.settings.plan import BenchSpec, Row
from frostbench.embedcache.backbones import resolve_device
from frostbench.training.data.part import Data
from frostbench.training.engine.fit import never


def run_bench(
    bench: BenchSpec,
    *,
    stop: Callable[[], bool] = never,
    device: str = "cpu",
    keep_stopped: bool = False,
    stream: Stream = "auto",
) -> Iterator[BenchEvent]:
    """Train every run of a bench that its store lacks, and yield events.

    Missing runs of one skeleton are trained as a stack. Each run is stored as soon as it ends; if a run fails, the
    others continue. A run shared by several rows is trained once. Ensembles are evaluated last. Several processes may
    run benches on one store at the same time, also on several machines: each trains stacks that no other process has
    claimed, and waits for the others' runs at the end (`frostbench.benchmarks.runs.claims`).

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
    Claims(store).clear_old()
    trained = skipped = 0
    failed: list[RunFailed] = []
    for cache in bench.caches:
        work = open_work(bench, cache, rows, str(resolve_device(device)), keep_stopped, stream)
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


def _run_cache(work: Work, rows: Sequence[Row], stop: Callable[[], bool], n_rows: int) -> Iterator[BenchEvent]:
    """Train the missing runs of all rows; vectors are only copied if a run is missing."""
    missing = missing_runs(work, rows)
    data: Data | None = None
    if missing:
        data = table_to_data(work.table, work.split, device=work.device)
        data = with_views(data, work.table, work.split, [run.spec for run in missing.values()])
        check_work(work, list(missing.values()), data)
    for number, row in enumerate(rows, start=1):
        notes = row.warnings + notes_on_row(work.table, work.split, row.specs[0])
        yield RowStarted(work.cache, row.name, number, n_rows, notes)
        for spec in row.specs:
            if (key := work.key(spec)) not in missing:
                yield RunSkipped(work.cache, row.name, spec.seed, key)
    if data is not None:
        yield from train_missing(work, list(missing.values()), data, stop)
