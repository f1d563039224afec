"""Reading a cached column of 100,000 × 1024 float16 vectors, against the ways in which people keep theirs.

All files are in the page cache, and both sides of a pair end with the matrix in memory and one value of each 2 KB read
from it (`touch`), so that neither gains by putting the work off. Only vectors are read, on both sides: np.load knows no
ids, and pandas is asked for the one column. Our sides read into Arrow's memory pool, which keeps freed pages, so part
of their gain is that of a program's second read; in the first, both ask the system for new memory.

- view: one shard, as small and imported caches have, against np.load of the same matrix.
- copy: many shards, as the embed command writes, into one fresh array, against np.load.
- pandas: the same rows as a list<float32> column, as a data frame's to_parquet writes them, read and stacked. Each
  side ends with the type that its file holds, float16 here and float32 there.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.speed.harness import Figure, compare
from embedcache.recipe import Recipe
from embedcache.store import shard_path, write_shard
from embedcache.vectors import copy_vectors, read_vectors

ROWS = 100_000
DIM = 1_024
SHARD_ROWS = 4_096
PANDAS_ROWS = 20_000
COLUMN = "x"
UNIT = "peer seconds / our seconds"


def figures(quick: bool) -> Iterator[Figure]:
    """The three figures; `quick` repeats less and gives pandas fewer rows (ours reads the same fewer rows)."""
    repeats = 7 if quick else 21
    with tempfile.TemporaryDirectory(prefix="frostbench-speed-") as folder:
        root = Path(folder)
        x = np.random.default_rng(0).standard_normal((ROWS, DIM), dtype=np.float32).astype(np.float16)
        np.save(root / "x.npy", x)
        one = write_cache(root / "one", x, ROWS)
        many = write_cache(root / "many", x, SHARD_ROWS)
        pandas_rows = PANDAS_ROWS if quick else ROWS
        part = one if pandas_rows == ROWS else write_cache(root / "part", x[:pandas_rows], pandas_rows)
        write_lists(root / "lists.parquet", x[:pandas_rows])
        del x

        def load() -> float:
            return touch(np.load(root / "x.npy"))

        def stack() -> float:
            return touch(np.stack(pd.read_parquet(root / "lists.parquet", columns=[COLUMN])[COLUMN].tolist()))

        def view() -> float:
            return touch(read_vectors(one, COLUMN, DIM))

        def copy() -> float:
            return touch(copy_vectors(many, COLUMN, DIM))

        def view_part() -> float:
            return touch(read_vectors(part, COLUMN, DIM))

        yield compare("cache.view", view, load, goal=1.0, repeats=repeats, unit=UNIT)
        yield compare("cache.copy", copy, load, goal=0.5, repeats=repeats, unit=UNIT)
        yield compare("cache.pandas", view_part, stack, goal=10.0, repeats=max(3, repeats // 3), unit=UNIT)


def touch(x: np.ndarray) -> float:
    """Read one value of each 2 KB, and so of every page."""
    step = 2_048 // x.itemsize
    return float(x[:, ::step].sum(dtype=np.float64))


def write_cache(root: Path, x: np.ndarray, shard_rows: int) -> list[Path]:
    """The shards of a cache that holds a matrix."""
    recipes, dims = {COLUMN: Recipe(provider="external", model="random numbers")}, {COLUMN: x.shape[1]}
    paths = []
    for i, start in enumerate(range(0, len(x), shard_rows)):
        rows = x[start : start + shard_rows]
        ids = [f"image/{start + k:08d}.jpg" for k in range(len(rows))]
        write_shard(root, i, ids, [b"\0" * 32] * len(rows), {COLUMN: rows}, [], recipes, dims)
        paths.append(shard_path(root, i))
    return paths


def write_lists(path: Path, x: np.ndarray) -> None:
    """The matrix as a data frame with a list in each cell, written as pandas does by default."""
    pd.DataFrame({COLUMN: list(x.astype(np.float32))}).to_parquet(path)
