"""A finished bench with ensembles."""

import pytest
from averaged_benches import bench_of

from frostbench.benchmarks.runs.runner import run_bench


@pytest.fixture(scope="session")
def ran(write_cache, tmp_path_factory):
    """A finished bench with its events."""
    bench = bench_of(write_cache(tmp_path_factory.mktemp("ensembles") / "cache"))
    return bench, list(run_bench(bench))
