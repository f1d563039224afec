"""Fit the heads of a job list and save their predictions for the test rows.

This file is run by its path with the product's code on PYTHONPATH, today's or that of an older checkout. It may
therefore use only numpy and `fit`, and only the part of `fit` that both versions have.
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
    """Run the jobs whose results `out` does not contain yet.

    Args:
        table: .npz with x [N, D] and labels [N] from 0.
        jobs: JSON list of jobs; see `frostbench.benchmarks.results.defaults.jobs.Job`.
        out: folder for NAME.npz of each job: p [M, C] of its test rows, metrics on validation rows, and the kept epoch.
    """
    with np.load(table) as arrays:
        x, labels = arrays["x"], arrays["labels"]
    for job in json.loads(jobs.read_text(encoding="utf-8")):
        path = out / f"{job['name']}.npz"
        if not path.exists():
            result = fitted(x, labels, job)
            partial = path.with_suffix(".partial.npz")
            np.savez(partial, **result)
            partial.replace(path)


def fitted(x: Any, labels: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Fit the head of a job and return its result."""
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
    """Import `fit` from the checkout that PYTHONPATH names first, not from another installation.

    Raises:
        ImportError: the imported module is outside the checkout.
    """
    folder = Path(os.environ["PYTHONPATH"].split(os.pathsep)[0]).resolve()
    # Older checkouts, without a single import name for the package, have `fit` in benchmarks.api.
    name = "frostbench.benchmarks.api" if (folder / "frostbench").is_dir() else "benchmarks.api"
    api = importlib.import_module(name)
    result = Path(str(api.__file__)).resolve()
    if not result.is_relative_to(folder):
        raise ImportError(f"{name} must be imported from {folder}, but was found in {result}.")
    return api.fit


def scaled(x: Any, length: float | None, factor: float) -> Any:
    """Scale vectors [N, D] to a norm, if given, and multiply them by a factor."""
    if length is not None:
        x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12) * length
    return (x * factor).astype(np.float32)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
