"""Runs of a tuned bench, trained once."""

import shutil
from types import SimpleNamespace

import pytest
from tuned_benches import tuned_bench

from frostbench.benchmarks.runs.runner import run_bench


@pytest.fixture(scope="session")
def trained(tmp_path_factory, write_cache):
    """A folder with a cache and the runs of the tuned bench, and the events of its training."""
    folder = tmp_path_factory.mktemp("tuned")
    write_cache(folder / "cache")
    return SimpleNamespace(folder=folder, events=list(run_bench(tuned_bench(folder))))


@pytest.fixture
def folder(trained, tmp_path):
    """A copy of that folder, which may be changed."""
    shutil.copytree(trained.folder, tmp_path / "copy")
    return tmp_path / "copy"
