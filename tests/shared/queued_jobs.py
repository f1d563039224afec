"""Helpers to queue jobs, wait for their state, and write their files by hand."""

import os
import time
from dataclasses import replace

import numpy as np
import pytest

from frostbench.app.jobs import log_tail, read
from frostbench.app.jobs.files import read_process, write_json
from frostbench.app.jobs.ids import new_id
from frostbench.app.jobs.mark import write_mark
from frostbench.app.jobs.process import identity
from frostbench.app.jobs.records import Request, Status

ENDLESS = {
    "train.schedule.epochs": 100_000,
    "train.schedule.batch_size": 1000,
    "train.early_stop.patience": 100_000,
}
SHORT = {"train.schedule.epochs": 4, "train.schedule.min_steps": 0}
# Slow on many vectors of very unequal scale, with almost no penalty and a small tolerance.
SLOW_SOLVER = {
    "head.classifier.kind": "logreg",
    "head.classifier.tolerance": 1e-10,
    "head.classifier.c": 1e6,
    "head.classifier.max_iterations": 1_000_000,
}
DEADLINE = 60


def write_cache(folder, rows, dim, classes, scales=(1.0,)):
    from frostbench.embedcache.exchange.external import import_vectors

    vectors = np.random.default_rng(0).normal(0, 1, (rows, dim)) * np.resize(scales, dim)
    folder.mkdir()
    np.save(folder / "x.npy", vectors.astype(np.float32))
    names = "\n".join(f"class {i % classes}" for i in range(rows))
    (folder / "rows.csv").write_text(f"label\n{names}\n")
    import_vectors(folder / "x.npy", folder / "rows.csv", folder / "cache", "random")
    return folder / "cache"


def bench_of(cache, base=SHORT, seeds=(0,)):
    return {"name": "page", "caches": [str(cache)], "preset": "plain", "base": base, "seeds": list(seeds)}


def wait_for(store, job_id, reached):
    """Return the job once it reaches a state; fail if it ends in another one first."""
    deadline = time.monotonic() + DEADLINE
    while not reached(job := read(store, job_id)):
        ended = job.state not in ("queued", "running")
        if ended or time.monotonic() > deadline:
            pytest.fail(f"{job}\n{log_tail(store, job_id)}")
        time.sleep(0.02)
    return job


def wait_until(reached, what):
    deadline = time.monotonic() + DEADLINE
    while not reached():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)


def is_in(state):
    return lambda job: job.state == state


def epoch_from(epoch):
    return lambda job: job.epoch >= epoch


def pid_of(store, job_id):
    return read_process(store / "jobs" / job_id).pid


def seconds_to(store, job_id, state, act):
    """Return the job and the seconds it takes to reach a state after an action."""
    began = time.monotonic()
    act()
    return wait_for(store, job_id, is_in(state)), time.monotonic() - began


def records_of(store, job):
    from frostbench.benchmarks.runs.store import read_record

    return {seed: read_record(store, key) for seed, key in job.keys.items()}


def instead_of_pydantic(monkeypatch, folder, source):
    """Replace the first module that the worker imports for training."""
    folder.mkdir()
    (folder / "pydantic.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)


def made_by_hand(store, process=None, **fields):
    """Write the files of a job without starting a worker."""
    created = time.time()
    folder = store / "jobs" / new_id(created)
    folder.mkdir(parents=True)
    write_json(folder / "request.json", Request("A", "", {"seeds": [0]}, 1, "cpu", created))
    write_mark(folder, folder.name)
    if process is not None:
        write_json(folder / "process.json", process)
    if fields:
        write_json(folder / "status.json", Status(**fields))
    return folder


def this_process():
    return identity(os.getpid())


def another_process():
    """An earlier process with the pid of this one."""
    return replace(this_process(), start=1.0)
