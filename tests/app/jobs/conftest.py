"""A small cache, and a store whose workers are killed after the test."""

import os
import signal

import pytest
from queued_jobs import this_process, write_cache

from frostbench.app.jobs import queue
from frostbench.app.jobs.files import write_json
from frostbench.app.jobs.process import process_of


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return write_cache(tmp_path_factory.mktemp("small") / "in", 120, 8, 3)


@pytest.fixture
def store(tmp_path):
    """A store whose workers are killed after the test."""
    folder = tmp_path / "results"
    yield folder
    for path in folder.glob("jobs/*-*"):
        process = process_of(path)
        if process is not None and process.pid != os.getpid():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


@pytest.fixture
def started(monkeypatch):
    """IDs of the jobs whose workers were started, in order; the workers are replaced by this process."""
    found = []

    def start(folder, *_):
        found.append(folder.name)
        write_json(folder / "process.json", this_process())

    monkeypatch.setattr(queue, "start", start)
    return found
