"""Opens a cache for training and decides whether its vectors are read into memory or stay on disk."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch

from frostbench.benchmarks.settings.plan import BenchSpec, Row
from frostbench.embedcache.labels.newly_labelled import with_newly_labelled
from frostbench.embedcache.labels.relabelling import relabelled
from frostbench.embedcache.splits.making import Split, load_or_make_split
from frostbench.embedcache.table import FeatureTable, read_state, read_table, shape_of
from frostbench.embedcache.views.sets import count_views
from frostbench.training.engine.memory import COPIES_OF_ROWS, SHARE, free_on, gigabytes
from frostbench.training.run import RunSpec

Stream = Literal["auto", "always", "never"]
"""When vectors stay on disk: if they do not fit into memory (auto), always or never."""
CPU = torch.device("cpu")


class Opened(NamedTuple):
    """An opened cache.

    Attributes:
        table: table with its vectors in memory or on disk.
        split: role of each row.
        on_disk: why vectors stay on disk, or "" if they are in memory.
    """

    table: FeatureTable
    split: Split
    on_disk: str


@dataclass(frozen=True)
class Memory:
    """Bytes needed with all vectors in memory: for the table (on the CPU), and for training (on the device)."""

    table: int
    training: int

    def plus(self, other: "Memory") -> "Memory":
        """Add the bytes of another requirement."""
        return Memory(self.table + other.table, self.training + other.training)

    def beside(self, free: int, device: torch.device) -> list[tuple[int, int]]:
        """Return (required, available) bytes per kind of memory; `free` is the memory available to the CPU."""
        if device.type == "cpu":
            return [(self.table + self.training, free)]
        return [(self.table, free), (self.training, free_on(device))]


def opened_to_train(
    cache: str, bench: BenchSpec, rows: Sequence[Row], device: str = "cpu", stream: Stream = "auto"
) -> Opened:
    """Open and check a cache; read its vectors into memory if they and the copies for training fit.

    The choice does not affect results: the order of a run's rows is set by the run (`train.sampler.buffer_rows`).

    Raises:
        ValueError: the cache is unfinished or damaged, or its split is not possible.
    """
    runs = [spec for row in rows for spec in row.specs]
    columns = columns_for(Path(cache), runs)
    table = read_table(Path(cache), columns, stored=True)
    split = load_or_make_split(Path(cache), table, bench.split, Path(bench.store))
    need = memory_of(table, split, runs)
    reason = "stream=always was requested" if stream == "always" else ""
    if stream == "auto":
        reason = too_much(need.beside(free_on(CPU), torch.device(device)))
    if not reason:
        return Opened(*with_labels(read_table(Path(cache), columns), split, bench), "")
    for column in table.stored.values():
        column.check()
    return Opened(*with_labels(table, split, bench), reason)


def with_labels(table: FeatureTable, split: Split, bench: BenchSpec) -> tuple[FeatureTable, Split]:
    """Return the table and split with the labels that a bench uses: corrected, merged and without what is left out.

    Images without a label in the cache that corrections give one are added (`with_newly_labelled`).

    Raises:
        LabelError: the corrections cannot be read or do not fit the table.
    """
    changes = bench.labels.relabelling()
    if changes.is_neutral:
        return table, split
    table, split = with_newly_labelled(table, split, bench.split, changes.corrections)
    return relabelled(table, split, changes)[:2]


def columns_for(cache: Path, runs: Sequence[RunSpec]) -> list[str]:
    """Return the columns of a cache that runs may read: all vectors, and the patch tokens that a run names."""
    there = read_state(cache)[0]["columns"]
    tokens = {name for name, column in there.items() if shape_of(column)[0] is not None}
    named = {name for run in runs for name in run.columns}
    return [*sorted(there.keys() - tokens), *sorted(named & tokens)] or sorted(there)


def memory_of(table: FeatureTable, split: Split, runs: Sequence[RunSpec]) -> Memory:
    """Estimate the bytes that runs on a stored table would need if its vectors were read into memory."""
    dims = {name: column.width for name, column in table.stored.items()}
    held = int(np.isin(split.roles, ("train", "select", "calibrate")).sum())
    stepped = int(np.isin(split.roles, ("train", "select")).sum())
    first = next(iter(dims))
    width = max(sum(dims.get(name, 0) for name in run.columns or (first,)) for run in runs)
    # The vectors as stored, a float32 copy of each column, and the copies that a stack makes of its run's columns.
    total = sum(dims.values())
    read = sum(column.number_bytes * column.width for column in table.stored.values())
    need = Memory(len(table.ids) * read, 4 * held * total + COPIES_OF_ROWS * 4 * stepped * width)
    return need.plus(_memory_of_views(table, runs, width))


def _memory_of_views(table: FeatureTable, runs: Sequence[RunSpec], width: int) -> Memory:
    """Estimate the bytes for the view sets that runs name, which have no token columns."""
    folder, total = table.folder, sum(x.width for name, x in table.stored.items() if name not in table.tokens)
    named = {name for run in runs for name in (*run.view_sets, *run.tta)}
    if not named or folder is None:
        return Memory(0, 0)
    counts = {name: count_views(folder, name) for name in named}
    joined = max(sum(counts[name] for name in run.view_sets) for run in runs)
    everything = sum(counts.values())
    return Memory(2 * everything * total, 4 * everything * total + COPIES_OF_ROWS * 4 * joined * width)


def too_much(pairs: Sequence[tuple[int, int]]) -> str:
    """Describe the first pair of (required, available) bytes that does not fit, or return "" if all fit.

    >>> too_much([(3 * 2**30, 4 * 2**30), (4 * 2**30, 4 * 2**30)])
    'in memory they would take 4.00 GiB with the copies for training, more than 80% of the 4.00 GiB available'
    """
    for required, available in pairs:
        if required > SHARE * available:
            needs = f"in memory they would take {gigabytes(required)} with the copies for training"
            return f"{needs}, more than {SHARE:.0%} of the {gigabytes(available)} available"
    return ""
