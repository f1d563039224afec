"""Fits as jobs of other processes: by today's code, or by that of an older checkout."""

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
"""The folder with today's code."""


@dataclass(frozen=True)
class Job:
    """A head to be fitted.

    Attributes:
        preset: of the head.
        roles: of each row of the table: train, select, calibrate, test or unused; none leaves the cut to the product.
        length: that each vector is brought to; None leaves it as it is.
        factor: that vectors are multiplied with.
        seed: of the run.
        refit: whether the head is trained anew on training and selection rows; None is the product's own choice.
    """

    preset: str
    roles: tuple[str, ...] = ()
    length: float | None = None
    factor: float = 1.0
    seed: int = 0
    refit: bool | None = False

    @property
    def name(self) -> str:
        """Name of the file of its result: a digest of all that it is."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:24]


class Fit(NamedTuple):
    """What a job gave.

    Attributes:
        p: probabilities [M, C] of the test rows.
        metrics: accuracy, NLL and ECE of the rows that chose the epoch, or of those it was judged on.
        epoch: that was kept.
    """

    p: npt.NDArray[np.float64]
    metrics: tuple[float, float, float]
    epoch: int


@dataclass(frozen=True)
class Code:
    """The code that fits.

    Attributes:
        title: in the heading of its column.
        folder: its checkout.
    """

    title: str
    folder: Path

    def digest(self) -> str:
        """Of all files that decide what a fit returns, so that results of other code are not taken for its own."""
        found = hashlib.sha256()
        for part in ("configs", "embedcache", "heads", "training"):
            for file in sorted((self.folder / part).rglob("*")):
                if file.suffix in (".py", ".yaml"):
                    found.update(file.read_bytes())
        return found.hexdigest()[:12]

    def environment(self) -> dict[str, str]:
        """For a process that imports this code; on one thread, as several run beside each other."""
        return os.environ | {"PYTHONPATH": str(self.folder), "OMP_NUM_THREADS": "1"}


class Work(NamedTuple):
    """Jobs on a table by a code.

    Attributes:
        table: the vectors.
        name: of the table.
        code: that does them.
        jobs: any number of them.
    """

    table: Table
    name: str
    code: Code
    jobs: Sequence[Job]


def done(works: Sequence[Work], folder: Path) -> list[list[Fit]]:
    """The fits of all jobs; those that the folder holds already are read, and the others done on all cores.

    Raises:
        ChildProcessError: a process failed; its last lines are in the message.
    """
    with ThreadPoolExecutor(usable_cores()) as pool:
        return list(pool.map(lambda work: _done(work, folder), works))


def _done(work: Work, folder: Path) -> list[Fit]:
    rows = hashlib.sha256(work.table.x.tobytes() + work.table.labels.tobytes()).hexdigest()[:12]
    place = folder / "fits" / f"{work.name.replace(' ', '_')}-{rows}-{work.code.digest()}"
    place.mkdir(parents=True, exist_ok=True)
    missing = [job for job in work.jobs if not (place / f"{job.name}.npz").exists()]
    if missing:
        _run(work, missing, place)
    return [_read(place / f"{job.name}.npz") for job in work.jobs]


def _run(work: Work, jobs: Sequence[Job], place: Path) -> None:
    key = hashlib.sha256("".join(job.name for job in jobs).encode()).hexdigest()[:12]
    table, listed = place / f"table-{key}.npz", place / f"jobs-{key}.json"
    np.savez(table, x=work.table.x, labels=work.table.labels)
    listed.write_text(json.dumps([asdict(job) | {"name": job.name} for job in jobs]), encoding="utf-8")
    command = [sys.executable, "-P", str(HERE.parent / "one_fit.py"), str(table), str(listed), str(place)]
    ended = subprocess.run(command, env=work.code.environment(), capture_output=True, text=True, check=False)
    if ended.returncode:
        raise ChildProcessError(f"fits on {work.name} by {work.code.folder} failed: {ended.stderr[-2000:]}")
    table.unlink()
    listed.unlink()


def _read(place: Path) -> Fit:
    with np.load(place) as found:
        accuracy, nll, ece = found["metrics"].tolist()
        return Fit(found["p"].astype(np.float64), (accuracy, nll, ece), int(found["epoch"]))
