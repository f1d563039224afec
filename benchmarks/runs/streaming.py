"""Whether the vectors of a cache are read into memory or stay on disk, decided before any is read."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch

from frostbench.benchmarks.settings.plan import BenchSpec, Row
from frostbench.embedcache.splits.making import Split, load_or_make_split
from frostbench.embedcache.table import FeatureTable, read_state, read_table, shape_of
from frostbench.embedcache.views.sets import count_views
from frostbench.training.engine.memory import COPIES_OF_ROWS, SHARE, free_on, gigabytes
from frostbench.training.run import RunSpec

Stream = Literal["auto", "always", "never"]
"""Whether vectors stay on disk: where they do not fit into memory, or always, or never."""
CPU = torch.device("cpu")


class Opened(NamedTuple):
    """A cache that is ready for a bench.

    Attributes:
        table: with its vectors in memory, or on disk.
        split: of its rows.
        on_disk: why vectors stay on disk; empty where they are in memory.
    """

    table: FeatureTable
    split: Split
    on_disk: str


@dataclass(frozen=True)
class Memory:
    """Bytes that runs take with all vectors in memory: where the table is read, and where heads are trained."""

    table: int
    training: int

    def plus(self, other: "Memory") -> "Memory":
        """Both together."""
        return Memory(self.table + other.table, self.training + other.training)

    def beside(self, free: int, device: torch.device) -> list[tuple[int, int]]:
        """What is needed beside what is free, where free bytes are where the table is read, which may be the device."""
        if device.type == "cpu":
            return [(self.table + self.training, free)]
        return [(self.table, free), (self.training, free_on(device))]


def opened_to_train(
    cache: str, bench: BenchSpec, rows: Sequence[Row], device: str = "cpu", stream: Stream = "auto"
) -> Opened:
    """Open a cache and check it; its vectors are read where they fit, beside what training on them takes.

    The choice changes no result: the order of a run's rows is an option of the run (`train.sampler.buffer_rows`).

    Raises:
        ValueError: the cache is unfinished or damaged, or its split is not possible.
    """
    runs = [spec for row in rows for spec in row.specs]
    columns = columns_for(Path(cache), runs)
    table = read_table(Path(cache), columns, stored=True)
    split = load_or_make_split(Path(cache), table, bench.split, Path(bench.store))
    need = memory_of(table, split, runs)
    told = "stream=always was asked for" if stream == "always" else ""
    if stream == "auto":
        told = too_much(need.beside(free_on(CPU), torch.device(device)))
    if not told:
        return Opened(read_table(Path(cache), columns), split, "")
    for column in table.stored.values():
        column.check()
    return Opened(table, split, told)


def columns_for(cache: Path, runs: Sequence[RunSpec]) -> list[str]:
    """The columns of a cache that runs may read: all vectors, and the patch tokens that some run names."""
    there = read_state(cache)[0]["columns"]
    tokens = {name for name, column in there.items() if shape_of(column)[0] is not None}
    named = {name for run in runs for name in run.columns}
    return [*sorted(there.keys() - tokens), *sorted(named & tokens)] or sorted(there)


def memory_of(table: FeatureTable, split: Split, runs: Sequence[RunSpec]) -> Memory:
    """What runs on a stored table would take if its vectors were read."""
    dims = {name: column.width for name, column in table.stored.items()}
    held = int(np.isin(split.roles, ("train", "select", "calibrate")).sum())
    stepped = int(np.isin(split.roles, ("train", "select")).sum())
    first = next(iter(dims))
    width = max(sum(dims.get(name, 0) for name in run.columns or (first,)) for run in runs)
    # As read; float32 of each column; and what a stack takes of the columns of its run.
    total = sum(dims.values())
    read = sum(column.number_bytes * column.width for column in table.stored.values())
    need = Memory(len(table.ids) * read, 4 * held * total + COPIES_OF_ROWS * 4 * stepped * width)
    return need.plus(_memory_of_views(table, runs, width))


def _memory_of_views(table: FeatureTable, runs: Sequence[RunSpec], width: int) -> Memory:
    """What the view sets that runs name take; they have no columns of tokens."""
    folder, total = table.folder, sum(x.width for name, x in table.stored.items() if name not in table.tokens)
    named = {name for run in runs for name in (*run.view_sets, *run.tta)}
    if not named or folder is None:
        return Memory(0, 0)
    counts = {name: count_views(folder, name) for name in named}
    joined = max(sum(counts[name] for name in run.view_sets) for run in runs)
    everything = sum(counts.values())
    return Memory(2 * everything * total, 4 * everything * total + COPIES_OF_ROWS * 4 * joined * width)


def too_much(pairs: Sequence[tuple[int, int]]) -> str:
    """Of pairs of bytes that are needed and free, the first that is too much, in a sentence; empty where none is.

    >>> too_much([(3 * 2**30, 4 * 2**30), (4 * 2**30, 4 * 2**30)])
    'in memory its vectors would take 4.00 GiB with the copies for training, and of 4.00 GiB free 80% are used'
    """
    for takes, free in pairs:
        if takes > SHARE * free:
            told = f"in memory its vectors would take {gigabytes(takes)} with the copies for training"
            return f"{told}, and of {gigabytes(free)} free {SHARE:.0%} are used"
    return ""
