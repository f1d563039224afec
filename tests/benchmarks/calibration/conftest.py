"""The bench after its run, and the report on its selection rows."""

import pytest
from calibrated_benches import bench_of

from frostbench.benchmarks.api import calibration
from frostbench.benchmarks.runs.runner import run_bench


@pytest.fixture(scope="session")
def toy(tmp_path_factory, write_cache):
    folder = tmp_path_factory.mktemp("calibrated")
    bench = bench_of(folder, write_cache(folder / "cache"))
    list(run_bench(bench))
    return bench


@pytest.fixture(scope="session")
def report(toy):
    (found,) = calibration(toy, resamples=100)
    return found
