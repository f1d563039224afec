"""Fit the heads that a list names and keep what each says of the test rows.

This file is run by its path, with the product's code that PYTHONPATH names: today's or that of an older checkout. So it
may use numpy and `fit` alone, and of that only what both have.
"""

import importlib
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np


def main(table: Path, jobs: Path, out: Path) -> None:
    """Do the jobs that `out` does not hold yet.

    Args:
        table: .npz with x [N, D] and labels [N] from 0.
        jobs: JSON list of jobs; see `frostbench.benchmarks.results.defaults.jobs.Job`.
        out: folder; NAME.npz of each job holds p [M, C] of its test rows, and metrics of those that chose the epoch.
    """
    with np.load(table) as arrays:
        x, labels = arrays["x"], arrays["labels"]
    for job in json.loads(jobs.read_text(encoding="utf-8")):
        place = out / f"{job['name']}.npz"
        if not place.exists():
            found = fitted(x, labels, job)
            partial = place.with_suffix(".partial.npz")
            np.savez(partial, **found)
            partial.replace(place)


def fitted(x: Any, labels: Any, job: dict[str, Any]) -> dict[str, Any]:
    """The head of a job, by what it says."""
    fit = the_fit()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = scaled(x, job["length"], job["factor"])
        roles = np.array(job["roles"]) if job["roles"] else np.full(len(x), "train")
        kept = (roles != "test") & (roles != "unused")
        split = roles[kept].tolist() if job["roles"] else {"test": 0}
        names = [f"c{label:04d}" for label in labels[kept]]
        options = {"preset": job["preset"], "seed": job["seed"], "refit": job["refit"]}
        head = fit(x[kept], names, split=split, **options)
        p = np.zeros((int((roles == "test").sum()), int(labels.max()) + 1), dtype=np.float32)
        if len(p):
            p[:, [int(name[1:]) for name in head.class_names]] = head.predict_proba(x[roles == "test"])
    metrics = np.array([head.metrics[name] for name in ("accuracy", "nll", "ece")], dtype=np.float64)
    return {"p": p, "metrics": metrics, "epoch": np.array(head.record.epoch)}


def the_fit() -> Any:
    """Import `fit` from the checkout that PYTHONPATH names first, and from no other that is installed.

    Raises:
        ImportError: what was imported lies elsewhere.
    """
    folder = Path(os.environ["PYTHONPATH"].split(os.pathsep)[0]).resolve()
    # Checkouts from before there was one import name have it as benchmarks.api.
    name = "frostbench.benchmarks.api" if (folder / "frostbench").is_dir() else "benchmarks.api"
    api = importlib.import_module(name)
    found = Path(str(api.__file__)).resolve()
    if not found.is_relative_to(folder):
        raise ImportError(f"fits are those of the code in {folder}, however: {name} was found in {found}.")
    return api.fit


def scaled(x: Any, length: float | None, factor: float) -> Any:
    """Vectors [N, D] brought to a length, if one is given, and multiplied."""
    if length is not None:
        x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12) * length
    return (x * factor).astype(np.float32)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
