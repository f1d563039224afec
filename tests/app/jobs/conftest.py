"""A small cache, and a store whose workers are killed after the test."""

import os
import signal

import pytest
from queued_jobs import (
    write_cache,
)

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
