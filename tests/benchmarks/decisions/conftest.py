"""Runs of several kinds of calibration and decisions, with their logits."""

import pytest
from decided_runs import decided_runs

from frostbench.benchmarks.decisions.computing import compute_logits


@pytest.fixture(scope="session")
def runs(write_cache, tmp_path_factory):
    """Cache, store and run keys by kind; the logits of all runs have been computed."""
    root = tmp_path_factory.mktemp("decided")
    cache = write_cache(root / "cache")
    keys = {name: key for name, (key,) in decided_runs(cache, root / "store").items()}
    for key in keys.values():
        compute_logits(root / "store", key, cache)
    return cache, root / "store", keys
