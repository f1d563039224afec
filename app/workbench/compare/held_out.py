"""Labels and probabilities of the held-out images of a run, read once."""

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from frostbench.benchmarks.runs.store import OUTCOMES_FILE, read_outcomes, run_folder


class HeldOut(NamedTuple):
    """Labels [N], and the probability [N] of what the run said, in the order of `read_outcomes`."""

    labels: npt.NDArray[np.int64]
    confidence: npt.NDArray[np.float64]


def held_out(store: Path, key: str, role: str) -> HeldOut:
    """Return the held-out images of a role.

    Raises:
        StoreError: the outcomes are missing or damaged, or the role has no images.
    """
    path = run_folder(store, key) / OUTCOMES_FILE
    return _read(store, key, role, path.stat().st_mtime_ns if path.is_file() else 0)


@lru_cache(maxsize=16)
def _read(store: Path, key: str, role: str, _modified: int) -> HeldOut:
    rows = read_outcomes(store, key, role)
    return HeldOut(rows["label"].to_numpy(np.int64), rows["confidence"].to_numpy(np.float64))
