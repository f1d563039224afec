"""What is known of a run before anything is decided, read once: its held-out images, and which run is the best."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from frostbench.benchmarks.runs.record import best_of
from frostbench.benchmarks.runs.store import OUTCOMES_FILE, read_outcomes, read_record, run_folder


class Best(NamedTuple):
    """Key and seed of a run, and the hash of its split."""

    key: str
    seed: int
    split: str


def best_run(store: Path, keys: Sequence[str]) -> Best:
    """Return the run with the best validation result, which an export takes.

    Raises:
        StoreError: a record is missing or damaged.
    """
    return _best(store, tuple(keys), tuple(_written(run_folder(store, key) / "record.json") for key in keys))


@lru_cache(maxsize=64)
def _best(store: Path, keys: tuple[str, ...], _modified: tuple[int, ...]) -> Best:
    best = best_of([read_record(store, key) for key in keys])
    return Best(best.key, best.seed, best.data.split)


def _written(path: Path) -> int:
    """Return when a file was written, in nanoseconds; 0 if it is missing."""
    return path.stat().st_mtime_ns if path.is_file() else 0


class HeldOut(NamedTuple):
    """Labels [N], and the probability [N] of what the run said, in the order of `read_outcomes`."""

    labels: npt.NDArray[np.int64]
    confidence: npt.NDArray[np.float64]


def held_out(store: Path, key: str, role: str) -> HeldOut:
    """Return the held-out images of a role.

    Raises:
        StoreError: the outcomes are missing or damaged, or the role has no images.
    """
    return _read(store, key, role, _written(run_folder(store, key) / OUTCOMES_FILE))


@lru_cache(maxsize=16)
def _read(store: Path, key: str, role: str, _modified: int) -> HeldOut:
    rows = read_outcomes(store, key, role)
    return HeldOut(rows["label"].to_numpy(np.int64), rows["confidence"].to_numpy(np.float64))
