"""Labels of the held-out images of a run, read once."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from frostbench.benchmarks.runs.store import OUTCOMES_FILE, read_outcomes, run_folder


def labels_of(store: Path, key: str, role: str) -> npt.NDArray[np.int64]:
    """Return the labels [N] of the images of a role, in the order of `read_outcomes`.

    Raises:
        StoreError: the outcomes are missing or damaged, or the role has no images.
    """
    path = run_folder(store, key) / OUTCOMES_FILE
    return _labels(store, key, role, path.stat().st_mtime_ns if path.is_file() else 0)


@lru_cache(maxsize=16)
def _labels(store: Path, key: str, role: str, _modified: int) -> npt.NDArray[np.int64]:
    return read_outcomes(store, key, role)["label"].to_numpy(np.int64)
