"""Fits as jobs in other processes, with today's code or that of an older checkout."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from frostbench.benchmarks.results.tables import Table
from frostbench.embedcache.extraction.pipeline import usable_cores

HERE = Path(__file__).resolve()
NOW = HERE.parents[3]
"""Folder of today's code."""


@dataclass(frozen=True)
class Job:
    """A head to fit.

    Attributes:
        preset: preset of the head.
        roles: role of each row of the table: train, select, calibrate, test or unused; empty leaves the split to the
            product.
        length: norm that each vector is scaled to, or None to leave it unchanged.
        factor: factor by which vectors are multiplied.
        seed: seed of the run.
        refit: whether to refit the head on training and validation rows; None means the product's default.
    """

    preset: str
    roles: tuple[str, ...] = ()
    length: float | None = None
    factor: float = 1.0
    seed: int = 0
    refit: bool | None = False

    @property
    def name(self) -> str:
        """Name of the result file: a digest of all fields."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:24]


class Fit(NamedTuple):
    """Result of a job.

    Attributes:
        p: probabilities [M, C] of the test rows.
        metrics: accuracy, NLL and ECE on the validation rows.
        epoch: epoch that was kept.
    """

    p: npt.NDArray[np.float64]
    metrics: tuple[float, float, float]
    epoch: int


@dataclass(frozen=True)
class Code:
    """A checkout to fit with, and its column heading."""

    title: str
    folder: Path

    def digest(self, more: Sequence[str] = ()) -> str:
        """Return a digest of all files that affect a fit, so that results of other code are not reused.

        Args:
            more: further folders that affect it.
        """
        digest = hashlib.sha256()
        for part in ("configs/presets", "embedcache", "heads", "training", *more):
            for file in sorted((self.folder / part).rglob("*")):
                if file.suffix in (".py", ".yaml"):
                    digest.update(file.read_bytes())
        return digest.hexdigest()[:12]

    def environment(self) -> dict[str, str]:
        """Return the environment of a process that imports this code, with one thread as several run in parallel."""
        return os.environ | {"PYTHONPATH": str(self.folder), "OMP_NUM_THREADS": "1"}


class Work(NamedTuple):
    """Jobs on one table, of this name, with one code version."""

    table: Table
    name: str
    code: Code
    jobs: Sequence[Job]


def done(works: Sequence[Work], folder: Path) -> list[list[Fit]]:
    """Return the fits of all jobs, read from the folder or run on all cores.

    Raises:
        ChildProcessError: a process failed; the message ends with its last error output.
    """
    with ThreadPoolExecutor(usable_cores()) as pool:
        return list(pool.map(lambda work: _done(work, folder), works))


def _done(work: Work, folder: Path) -> list[Fit]:
    rows = hashlib.sha256(work.table.x.tobytes() + work.table.labels.tobytes()).hexdigest()[:12]
    results = folder / "fits" / f"{work.name.replace(' ', '_')}-{rows}-{work.code.digest()}"
    results.mkdir(parents=True, exist_ok=True)
    missing = [job for job in work.jobs if not (results / f"{job.name}.npz").exists()]
    if missing:
        _run(work, missing, results)
    return [_read(results / f"{job.name}.npz") for job in work.jobs]


def _run(work: Work, jobs: Sequence[Job], results: Path) -> None:
    key = hashlib.sha256("".join(job.name for job in jobs).encode()).hexdigest()[:12]
    table, listed = results / f"table-{key}.npz", results / f"jobs-{key}.json"
    np.savez(table, x=work.table.x, labels=work.table.labels)
    listed.write_text(json.dumps([asdict(job) | {"name": job.name} for job in jobs]), encoding="utf-8")
    command = [sys.executable, "-P", str(HERE.parent / "one_fit.py"), str(table), str(listed), str(results)]
    ended = subprocess.run(command, env=work.code.environment(), capture_output=True, text=True, check=False)
    if ended.returncode:
        raise ChildProcessError(f"fits on {work.name} by {work.code.folder} failed: {ended.stderr[-2000:]}")
    table.unlink()
    listed.unlink()


def _read(results: Path) -> Fit:
    with np.load(results) as digest:
        accuracy, nll, ece = digest["metrics"].tolist()
        return Fit(digest["p"].astype(np.float64), (accuracy, nll, ece), int(digest["epoch"]))
