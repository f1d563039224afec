"""Reading a cached column of 100,000 × 1024 float16 vectors, compared with other common storage formats.

All files are in the page cache. Both sides of a pair end with the matrix in memory and one value per 2 KiB read from it
(`touch`), so that neither gains by lazy loading. Both sides read only vectors: np.load knows no ids, and pandas reads
only that column. Our sides read into Arrow's memory pool, which keeps freed pages: an advantage that a program's first
read lacks.

- view: one shard, as in small and imported caches, compared with np.load of the same matrix.
- copy: many shards, as the embed command writes, into a new array, compared with np.load.
- pandas: the same rows as a list<float32> column, as a data frame's to_parquet writes them, read and stacked. Each side
ends with the type of its file, float16 or float32.
- several.copy, several.pandas: the same for a cache with 50 shards and three columns, of which one is read, and a
pandas file with the same three.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from frostbench.benchmarks.speed.harness import Figure, compare
from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.storage.store import shard_path, write_shard
from frostbench.embedcache.storage.vectors import copy_vectors, read_vectors

ROWS = 100_000
DIM = 1_024
SHARD_ROWS = 4_096
PANDAS_ROWS = 20_000
COLUMN = "x"
OTHERS = ("y", "z")
SEVERAL_SHARDS = 50
UNIT = "peer seconds / our seconds"


def figures(quick: bool) -> Iterator[Figure]:
    """Yield the five figures; `quick` repeats less and gives both sides of the pandas figures fewer rows."""
    repeats = 7 if quick else 21
    with tempfile.TemporaryDirectory(prefix="frostbench-speed-") as folder:
        root = Path(folder)
        x = np.random.default_rng(0).standard_normal((ROWS, DIM), dtype=np.float32).astype(np.float16)
        np.save(root / "x.npy", x)
        pandas_rows = PANDAS_ROWS if quick else ROWS
        yield from one_column(root, x, repeats, pandas_rows)
        yield from several_columns(root, x, repeats, pandas_rows)


def one_column(root: Path, x: np.ndarray, repeats: int, pandas_rows: int) -> Iterator[Figure]:
    """Yield figures for caches of one column, in one shard and in many."""
    one, many = write_cache(root / "one", x, ROWS), write_cache(root / "many", x, SHARD_ROWS)
    part = one if pandas_rows == ROWS else write_cache(root / "part", x[:pandas_rows], pandas_rows)
    write_lists(root / "lists.parquet", x[:pandas_rows], (COLUMN,))

    def view() -> float:
        return touch(read_vectors(one, COLUMN, DIM))

    def view_part() -> float:
        return touch(read_vectors(part, COLUMN, DIM))

    load, stack = Load(root / "x.npy"), Stack(root / "lists.parquet")
    yield compare("cache.view", view, load, goal=1.0, repeats=repeats, unit=UNIT)
    yield compare("cache.copy", Copy(many), load, goal=0.5, repeats=repeats, unit=UNIT)
    yield compare("cache.pandas", view_part, stack, goal=10.0, repeats=max(3, repeats // 3), unit=UNIT)


def several_columns(root: Path, x: np.ndarray, repeats: int, pandas_rows: int) -> Iterator[Figure]:
    """Yield figures for caches of three columns in 50 shards; all columns hold the same numbers."""
    names = (COLUMN, *OTHERS)
    many = write_cache(root / "several", x, -(-len(x) // SEVERAL_SHARDS), names)
    part = many[: -(-pandas_rows * SEVERAL_SHARDS // len(x))]
    write_lists(root / "several.parquet", x[:pandas_rows], names)
    load, stack = Load(root / "x.npy"), Stack(root / "several.parquet")
    yield compare("cache.several.copy", Copy(many), load, goal=0.5, repeats=repeats, unit=UNIT)
    yield compare("cache.several.pandas", Copy(part), stack, goal=10.0, repeats=3, unit=UNIT)


@dataclass(frozen=True)
class Load:
    """Loading a matrix saved by numpy."""

    path: Path

    def __call__(self) -> float:
        """Load the matrix."""
        return touch(np.load(self.path))


@dataclass(frozen=True)
class Stack:
    """Reading a column of lists saved by pandas."""

    path: Path

    def __call__(self) -> float:
        """Read the column and stack its lists."""
        return touch(np.stack(pd.read_parquet(self.path, columns=[COLUMN])[COLUMN].tolist()))


@dataclass(frozen=True)
class Copy:
    """Reading one column of many shards."""

    paths: Sequence[Path]

    def __call__(self) -> float:
        """Copy the column into one array."""
        return touch(copy_vectors(self.paths, COLUMN, DIM))


def touch(x: np.ndarray) -> float:
    """Read one value per 2 KiB, and thus from every page."""
    step = 2_048 // x.itemsize
    return float(x[:, ::step].sum(dtype=np.float64))


def write_cache(root: Path, x: np.ndarray, shard_rows: int, columns: Sequence[str] = (COLUMN,)) -> list[Path]:
    """Write the shards of a cache whose columns all hold a matrix."""
    recipes = {name: Recipe(provider="external", model="random numbers") for name in columns}
    dims = {name: int(x.shape[1]) for name in columns}
    paths = []
    for i, start in enumerate(range(0, len(x), shard_rows)):
        rows = x[start : start + shard_rows]
        ids = [f"image/{start + k:08d}.jpg" for k in range(len(rows))]
        write_shard(root, i, ids, [b"\0" * 32] * len(rows), dict.fromkeys(columns, rows), [], recipes, dims)
        paths.append(shard_path(root, i))
    return paths


def write_lists(path: Path, x: np.ndarray, columns: Sequence[str]) -> None:
    """Write the matrix as a data frame with lists in its cells, with pandas' defaults."""
    lists = list(x.astype(np.float32))
    pd.DataFrame(dict.fromkeys(columns, lists)).to_parquet(path)
