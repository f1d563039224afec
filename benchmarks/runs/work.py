"""One cache of a bench, opened for training, and the runs that the store lacks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from frostbench.benchmarks.inference.canary import canary_of
from frostbench.benchmarks.runs.ensembles import check_judged
from frostbench.benchmarks.runs.keys import key_of
from frostbench.benchmarks.runs.store import check_run_place, is_finished
from frostbench.benchmarks.runs.streaming import Stream, opened_to_train
from frostbench.benchmarks.runs.view_sets import data_hash, with_averaged
from frostbench.benchmarks.settings.plan import BenchSpec, Row
from frostbench.embedcache.splits.making import Split
from frostbench.embedcache.table import FeatureTable
from frostbench.heads.bundle.export import Canary
from frostbench.training.checks.data import check_data
from frostbench.training.crossval.crossval import check_runs
from frostbench.training.data.part import Data
from frostbench.training.run import RunSpec


@dataclass(frozen=True)
class Work:
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
        """Return the key of a run on this table and split."""
        return key_of(self.table, self.split, spec)


@dataclass(frozen=True)
class Run:
    """Run that the store lacks, and its rows: several rows share a run if their settings are equal."""

    key: str
    rows: tuple[str, ...]
    spec: RunSpec

    @property
    def row(self) -> str:
        """Name of the first row."""
        return self.rows[0]


def open_work(
    bench: BenchSpec, cache: str, rows: Sequence[Row], device: str, keep_stopped: bool, stream: Stream
) -> Work:
    """Open a cache of a bench and its split; `device` is resolved, such as cpu or cuda:0.

    Raises:
        ValueError: the cache is unfinished or damaged, or its split is not possible.
    """
    specs = [spec for row in rows for spec in row.specs]
    table, split, on_disk = opened_to_train(cache, bench, rows, device, stream)
    table = with_averaged(table, split, specs)
    check_judged(bench, split)
    reads = " ".join(sorted({data_hash(table, spec) for spec in specs}))
    canary = canary_of(Path(cache))
    return Work(cache, table, split, Path(bench.store), canary, device, keep_stopped, on_disk, reads)


def missing_runs(work: Work, rows: Sequence[Row]) -> dict[str, Run]:
    """Return, by key, the runs that the store lacks, in the order of the rows."""
    missing: dict[str, Run] = {}
    for row in rows:
        for spec in row.specs:
            key = work.key(spec)
            if key in missing:
                missing[key] = replace(missing[key], rows=(*missing[key].rows, row.name))
            elif not is_finished(work.store, key):
                check_run_place(work.store, key)
                missing[key] = Run(key, (row.name,), spec)
    return missing


def check_work(work: Work, runs: Sequence[Run], data: Data) -> None:
    """Check, before any training starts, that rows can be trained.

    Raises:
        ValueError: a row cannot be trained on the data; the message names it.
    """
    for row in dict.fromkeys(run.row for run in runs):
        specs = [run.spec for run in runs if run.row == row]
        try:
            check_data(specs, data) if work.split.folds is None else check_runs(specs, data)
        except ValueError as error:
            why = f" Vectors stay on disk: {work.on_disk}." if work.on_disk else ""
            raise ValueError(f"row {row!r}: {error}{why}") from error
