"""What a bench would do: rows, stacks, memory and time, without writing to its store."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from frostbench.benchmarks.runs.evaluate import table_to_data
from frostbench.benchmarks.runs.events import RunDone
from frostbench.benchmarks.runs.keys import rows_of
from frostbench.benchmarks.runs.store import is_finished
from frostbench.benchmarks.runs.streaming import Stream
from frostbench.benchmarks.runs.timing import FEW, seconds_of, shortened, subset
from frostbench.benchmarks.runs.train_missing import train_stack
from frostbench.benchmarks.runs.view_sets import with_views
from frostbench.benchmarks.runs.work import Run, Work, check_work, missing_runs, open_work
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.backbones import resolve_device
from frostbench.training.crossval.crossval import groups_of
from frostbench.training.data.part import Data
from frostbench.training.engine.fit import never
from frostbench.training.engine.grouping import grouped, skeleton_of
from frostbench.training.engine.memory import need_of
from frostbench.training.run import RunSpec


@dataclass(frozen=True)
class StackPlan:
    """Stacks that differ only in their seed.

    Attributes:
        rows: names of the rows whose runs they train.
        stacks: number of stacks.
        heads: number of heads in each.
        epochs: maximum number of epochs; 0 for closed-form heads.
        bytes: memory that one of them needs besides the data.
        seconds: estimated time of all of them if no head stops early, with evaluation and storing.
    """

    rows: tuple[str, ...]
    stacks: int
    heads: int
    epochs: int
    bytes: int
    seconds: float


@dataclass(frozen=True)
class CachePlan:
    """What a bench would do on one cache.

    Attributes:
        cache: folder of the cache.
        rows: number of rows by role.
        runs: number of different runs.
        found: number of runs that are already in the store.
        on_disk: why vectors would stay on disk, or "".
        stacks: stacks to train, in their order; those that differ only in their seed are counted together.
    """

    cache: str
    rows: dict[str, int]
    runs: int
    found: int
    on_disk: str
    stacks: tuple[StackPlan, ...]

    @property
    def seconds(self) -> float:
        """Estimated time of all stacks."""
        return sum(stack.seconds for stack in self.stacks)


def plan_bench(bench: BenchSpec, device: str = "cpu", stream: Stream = "auto") -> Iterator[CachePlan]:
    """Check a bench and estimate the memory and the time that it would need, cache by cache.

    Each kind of stack is trained for a few epochs on a few rows; nothing is stored except the split of a cache. Time is
    that of this process alone, without `--workers`; rows on disk are timed in memory.

    Raises:
        ValueError: the bench could not run; see `frostbench.benchmarks.runs.runner.run_bench`.
    """
    rows = rows_of(bench)
    for cache in bench.caches:
        work = open_work(bench, cache, rows, str(resolve_device(device)), keep_stopped=False, stream=stream)
        keys = {work.key(spec) for row in rows for spec in row.specs}
        missing = list(missing_runs(work, rows).values())
        found = sum(is_finished(work.store, key) for key in keys)
        stacks: tuple[StackPlan, ...] = ()
        if missing:
            data = with_views(
                table_to_data(work.table, work.split, device=work.device),
                work.table,
                work.split,
                [run.spec for run in missing],
            )
            check_work(work, missing, data)
            stacks = tuple(_stacks(work, missing, data))
        yield CachePlan(cache, dict(work.split.report.counts), len(keys), found, work.on_disk, stacks)


def _stacks(work: Work, runs: Sequence[Run], data: Data) -> Iterator[StackPlan]:
    specs = [run.spec for run in runs]
    folds = work.split.folds
    numbered = grouped(specs, data) if folds is None else groups_of(specs, data, len(folds))
    kinds: dict[tuple[str, int], list[list[int]]] = {}
    for numbers in numbered:
        alike = specs[numbers[0]].model_copy(update={"seed": 0, "order_seed": 0})
        kinds.setdefault((skeleton_of(alike), len(numbers)), []).append(numbers)
    storing: float | None = None
    for stacks in kinds.values():
        first = [specs[number] for number in stacks[0]]
        if storing is None:
            storing = _seconds_to_store(work, first[0], data)
        once = seconds_of(first, data) * _fits(work, first[0]) + storing * len(first)
        need = need_of(first[0], data)
        names = dict.fromkeys(row for numbers in stacks for number in numbers for row in runs[number].rows)
        epochs = 0 if first[0].is_solved else first[0].epochs_for(len(data.train))
        size = need.rows + need.head * len(first)
        yield StackPlan(tuple(names), len(stacks), len(first), epochs, size, once * len(stacks))


def _seconds_to_store(work: Work, run: RunSpec, data: Data) -> float:
    """Time the evaluation and storing of a run, in a temporary store; 0 if the split has no rows to evaluate on."""
    evaluated = [work.split.report.counts[role] for role in ("select", "test")]
    if not any(evaluated):
        return 0.0
    short, part = shortened(run), subset(data, FEW * run.train.batch_rows)
    with TemporaryDirectory(prefix="frostbench-dry-run-") as folder:
        place = replace(work, store=Path(folder), split=replace(work.split, folds=None))
        last = time.perf_counter()
        for event in train_stack(place, [Run(place.key(short), ("timed",), short)], part, never):
            now = time.perf_counter()
            if isinstance(event, RunDone):
                return now - last
            last = now
    return 0.0


def _fits(work: Work, run: RunSpec) -> int:
    """Return how often a stack is fitted: once, or for each fold of each repeat and at the end for all rows."""
    if work.split.folds is None:
        return 1
    repeats, folds = len(work.split.folds), int(work.split.folds.max()) + 1
    stages = (not run.is_solved) + run.second.takes_steps
    return stages * repeats * folds + folds + 1
