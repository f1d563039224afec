"""Training on vectors that stay on disk, compared with the same training on the same vectors in memory.

The table is sorted by class, with 1024 float16 per row, in shards of 4,096 rows, as the embed command writes; its files
are in the page cache. Both sides take the same batches in the same order, so they end with the same head; the unit
states the largest difference. A buffer holds a quarter of the rows of the timed table.

- linear, mlp: one pass of one head; a stack shares the cost of reading.
- memory: peak growth of the process, from reading the table's keys until a linear head and an MLP are trained for one
pass and evaluated, each side in its own process. The buffer holds 16,384 rows.
"""

import multiprocessing
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import torch

from frostbench.benchmarks.runs.evaluate import part_of
from frostbench.benchmarks.speed.harness import Figure, compare, figure
from frostbench.embedcache.items import Item
from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.storage.files import write_json
from frostbench.embedcache.storage.store import (
    FORMAT_VERSION,
    describe_columns,
    write_items,
    write_manifest,
    write_shard,
)
from frostbench.embedcache.table import FeatureTable, read_table
from frostbench.training.data.part import Data
from frostbench.training.engine.events import Failed
from frostbench.training.engine.fit import fit
from frostbench.training.engine.run_context import run_contexts
from frostbench.training.engine.stages import Stage, first_stage
from frostbench.training.engine.step_inputs import PerStep
from frostbench.training.run import RunSpec

DIM, CLASSES, SHARD_ROWS = 1_024, 50, 4_096
ROWS, ROWS_QUICK, BATCH = 100_000, 40_000, 1_024
LARGE, LARGE_QUICK = 600_000, 100_000
"""Rows of the table for the memory figure: 1.2 GB of float16, or 0.2 GB."""
LARGE_BUFFER = 16_384
BODIES = {"linear": {"kind": "identity"}, "mlp": {"kind": "mlp", "hidden": [128]}}


def figures(quick: bool) -> Iterator[Figure]:
    """Yield two figures of time and one of memory; `quick` repeats less and measures a smaller table."""
    with tempfile.TemporaryDirectory(prefix="frostbench-speed-") as folder:
        cache = write_table(Path(folder) / "timed", ROWS_QUICK if quick else ROWS)
        stored, held = data_of(read_table(cache, stored=True)), data_of(read_table(cache))
        for name, goal in (("linear", 0.5), ("mlp", 0.7)):
            yield from timed(name, held, stored, goal, 3 if quick else 5)
        del stored, held
        yield memory(write_table(Path(folder) / "large", LARGE_QUICK if quick else LARGE))


def timed(name: str, held: Data, stored: Data, goal: float, repeats: int) -> Iterator[Figure]:
    """Yield the ratio of seconds of a pass in memory to those of a streamed pass."""
    buffer = len(held.train) // 4 // SHARD_ROWS * SHARD_ROWS
    run = run_of(name, buffer)
    sides = [Pass(first_stage(run_contexts([0], [run], data))) for data in (stored, held)]
    unit = f"seconds in memory / streamed, a pass over {len(held.train)} rows, buffer {buffer}"
    found = compare(f"stream.{name}", *sides, goal=goal, repeats=repeats, unit=unit)
    weights = [torch.cat([p.flatten() for p in side.stage.stack.evaluated.values()]) for side in sides]
    yield replace(found, unit=f"{unit}; heads differ by {float((weights[0] - weights[1]).abs().max()):.1e}")


class Pass:
    """A training stage; each call runs one more pass of its steps."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def __call__(self) -> None:
        """Run the steps."""
        for rows in self.stage.batches(0.0):
            self.stage.stack.step(rows, self.stage.rows.labels[rows], PerStep(0, 0.0), 1.0)


def memory(cache: Path) -> Figure:
    """Return the ratio of memory growth of training in memory to that of streamed training."""
    grown = []
    for stored in (True, False):
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            grown.append(pool.submit(peak_of, cache, stored).result())
    streamed, held = grown
    rows = len(read_table(cache, stored=True).ids)
    unit = f"peak growth in bytes in memory / streamed, {rows} rows, {2 * rows * DIM:.2g} bytes, buffer {LARGE_BUFFER}"
    return figure("stream.memory", [(streamed, held)], [held / streamed], goal=4.0, unit=unit)


def peak_of(cache: Path, stored: bool) -> float:
    """Return the growth in bytes of this process while it reads or streams a table's vectors and trains on them."""
    runs = [run_of(name, LARGE_BUFFER) for name in BODIES]
    table = read_table(cache, stored=True)
    with Peak() as peak:
        data = data_of(table if stored else replace(read_table(cache), ids=table.ids))
        failed = [event.message for event in fit(runs, data) if isinstance(event, Failed)]
    if failed:
        raise ValueError(failed[0])
    return float(peak.grown)


class Peak:
    """Peak growth of this process within a block, sampled every 5 ms; in bytes, in `grown`."""

    def __init__(self) -> None:
        self.grown = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Peak":
        self._process = psutil.Process()
        self._before = self._process.memory_info().rss
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(0.005):
            self.grown = max(self.grown, self._process.memory_info().rss - self._before)


def run_of(name: str, buffer: int) -> RunSpec:
    """Return a run of one pass over rows shuffled in a buffer."""
    sampler = {"kind": "shuffled", "buffer_rows": buffer, "block_rows": SHARD_ROWS}
    schedule = {"epochs": 1, "min_steps": 0, "batch_size": BATCH}
    head = {"body": BODIES[name], "preprocess": {"center": True, "std": True}}
    return RunSpec.model_validate({"head": head, "train": {"sampler": sampler, "schedule": schedule}})


def data_of(table: FeatureTable) -> Data:
    """Return a table's rows; every 40th is for validation and the next one for calibration."""
    place = np.arange(len(table.labels)) % 40
    train = part_of(table, place > 1, on_disk=bool(table.stored))
    return Data(train, part_of(table, place == 0), part_of(table, place == 1), table.class_names)


def write_table(folder: Path, rows: int) -> Path:
    """Write a cache of random vectors about class means, sorted by class."""
    draw = np.random.default_rng(0)
    labels = np.arange(rows) * CLASSES // rows
    means = 0.2 * draw.standard_normal((CLASSES, DIM), dtype=np.float32)
    recipes, dims = {"x": Recipe(provider="external", model="random numbers")}, {"x": DIM}
    names = [f"{label:02d}" for label in range(CLASSES)]
    state = {"format_version": FORMAT_VERSION, "class_names": names, "shard_rows": SHARD_ROWS}
    write_json(folder / "cache.json", state | {"columns": describe_columns(recipes, dims)})
    items = [Item(f"{row:08d}", None, names[label], None, None) for row, label in enumerate(labels.tolist())]
    write_items(folder, items)
    for shard, start in enumerate(range(0, rows, SHARD_ROWS)):
        own = labels[start : start + SHARD_ROWS]
        x = (means[own] + draw.standard_normal((len(own), DIM), dtype=np.float32)).astype(np.float16)
        ids = [item.id for item in items[start : start + len(own)]]
        content = [row.to_bytes(32, "big") for row in range(start, start + len(own))]
        write_shard(folder, shard, ids, content, {"x": x}, [], recipes, dims)
    write_manifest(folder)
    return folder
