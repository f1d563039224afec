"""Logits of a run's held-out images: RUN/logits.safetensors, read with numpy alone.

    select, test   float32 [N, C], rows in the order of `read_outcomes`: sorted by id

For a head whose calibration is a temperature or none, they are its adjusted logits before calibration, so that a
temperature can be refitted for another class prior. For other calibrators they are calibrated log-probabilities.
float32 is what heads compute; float16 would change probabilities by up to 1 %, float32 by less than 1e-6.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as array_bytes

from frostbench.benchmarks.runs.store import OUTCOMES_FILE, StoreError, read_record, run_folder
from frostbench.embedcache.outputs.writing import write_bytes

FILE = "logits.safetensors"
MOST_KEPT = 8
"""Number of runs whose logits stay in memory; the ones not used for the longest are dropped."""
Holds = Literal["logits", "log_p"]
Floats = npt.NDArray[np.float32]


class LogitsMissingError(StoreError):
    """The logits of a run have not been computed yet."""


@dataclass(frozen=True, eq=False)
class StoredLogits:
    """Logits of a run's held-out images.

    Attributes:
        holds: `logits` before calibration, or calibrated `log_p`.
        rows: [N, C] by role.
    """

    holds: Holds
    rows: Mapping[str, Floats]


def save_logits(store: Path, key: str, logits: StoredLogits) -> Path:
    """Write the logits of a run atomically, and return the path.

    Raises:
        OSError: the file cannot be written.
    """
    arrays = {role: np.ascontiguousarray(rows, np.float32) for role, rows in logits.rows.items()}
    about = {"format": "1", "holds": logits.holds, "sha256": _digest(arrays), "outcomes": _outcomes_of(store, key)}
    path = run_folder(store, key) / FILE
    write_bytes(path, array_bytes(arrays, about))
    return path


def read_logits(store: Path, key: str) -> StoredLogits:
    """Return the logits of a run; they are read and checked once and then kept in memory.

    Raises:
        LogitsMissingError: they have not been computed.
        StoreError: the file is damaged, or belongs to other outcomes.
    """
    path = run_folder(store, key) / FILE
    try:
        state = path.stat()
    except OSError as error:
        raise LogitsMissingError(
            f"The logits of run {key} are not stored. Compute them: on the page with the button, in Python with "
            "frostbench.benchmarks.decisions.computing.compute_logits."
        ) from error
    return _read(store, key, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=MOST_KEPT)
def _read(store: Path, key: str, _modified: int, _size: int) -> StoredLogits:
    path = run_folder(store, key) / FILE
    try:
        with safe_open(path, framework="np") as file:
            about = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, a method of safe_open
        if about.get("sha256") != _digest(arrays) or about.get("holds") not in ("logits", "log_p"):
            raise ValueError("its content is not what was written")
        if about.get("outcomes") != _outcomes_of(store, key):
            raise ValueError("it belongs to other outcomes")
        if any(rows.dtype != np.float32 or rows.ndim != 2 or np.isnan(rows).any() for rows in arrays.values()):
            raise ValueError("it holds no float32 matrices of numbers")
    except (OSError, ValueError, SafetensorError) as error:
        raise StoreError(
            f"Cannot read the logits of a run, {path}: {error}. Delete the file and compute them again."
        ) from error
    return StoredLogits("logits" if about["holds"] == "logits" else "log_p", arrays)


def _digest(arrays: Mapping[str, Floats]) -> str:
    """Return the SHA-256 of names, shapes and values."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        found.update(f"{name} {arrays[name].shape}\n".encode())
        found.update(np.ascontiguousarray(arrays[name]).data)
    return found.hexdigest()


def _outcomes_of(store: Path, key: str) -> str:
    """Return what identifies the outcomes whose rows the logits are those of: their digest, or the key if old."""
    return read_record(store, key).digests.get(OUTCOMES_FILE, key)
