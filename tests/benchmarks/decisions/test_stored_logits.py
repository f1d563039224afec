"""Logits in the store: computed once, checked against the run and against damage."""

import shutil

import numpy as np
import pytest

from frostbench.benchmarks.decisions.computing import compute_logits
from frostbench.benchmarks.decisions.stored_logits import LogitsMissingError, StoredLogits, read_logits, save_logits
from frostbench.benchmarks.runs.runner import bench_rows, run_bench
from frostbench.benchmarks.runs.store import StoreError, read_outcomes, run_folder
from frostbench.benchmarks.settings.plan import BenchSpec


@pytest.fixture
def copied(runs, tmp_path):
    """A copy of the store without logits, and the key of its plain run."""
    cache, store, keys = runs
    shutil.copytree(store, tmp_path / "store")
    (run_folder(tmp_path / "store", keys["plain"]) / "logits.safetensors").unlink()
    return cache, tmp_path / "store", keys["plain"]


def test_missing_logits_are_named_and_computed(copied):
    cache, store, key = copied
    with pytest.raises(LogitsMissingError, match=r"are not stored\. Compute them"):
        read_logits(store, key)
    compute_logits(store, key, cache)
    found = read_logits(store, key)
    assert found.holds == "logits"
    for role in ("select", "test"):
        outcomes = read_outcomes(store, key, role)
        p = np.exp(found.rows[role].astype(float))
        p /= p.sum(1, keepdims=True)
        said = p[np.arange(len(p)), outcomes["predicted"]]
        assert said == pytest.approx(outcomes["confidence_raw"].to_numpy(), abs=1e-6)


def test_a_calibrator_other_than_a_temperature_has_its_log_probabilities_kept(runs):
    _, store, keys = runs
    found = read_logits(store, keys["vector"])
    assert found.holds == "log_p"
    assert np.exp(found.rows["select"].astype(float)).sum(1) == pytest.approx(1)


def test_changed_logits_are_refused(copied):
    cache, store, key = copied
    path = compute_logits(store, key, cache)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(StoreError, match="its content is not what was written"):
        read_logits(store, key)
    path.write_bytes(b"no tensors")
    with pytest.raises(StoreError, match="Cannot read the logits of a run"):
        read_logits(store, key)


def test_logits_of_another_run_are_refused(runs, copied):
    _, _, keys = runs
    _, store, key = copied
    shutil.copy(run_folder(store, keys["none"]) / "logits.safetensors", run_folder(store, key))
    with pytest.raises(StoreError, match="it belongs to other outcomes"):
        read_logits(store, key)


def test_logits_that_are_no_numbers_are_refused(copied):
    _, store, key = copied
    save_logits(store, key, StoredLogits("logits", {"select": np.full((2, 6), np.nan, np.float32)}))
    with pytest.raises(StoreError, match="no float32 matrices of numbers"):
        read_logits(store, key)


def test_other_vectors_are_noticed(copied, write_cache, tmp_path):
    _, store, key = copied
    with pytest.raises(StoreError, match=r"lacks \d+ of \d+; the first is '0"):
        compute_logits(store, key, write_cache(tmp_path / "short", counts=(20, 20, 20, 12, 8, 6)))
    with pytest.raises(StoreError, match=r"with .* a probability differs by 0"):
        compute_logits(store, key, write_cache(tmp_path / "other", counts=(40, 120, 60, 24, 16, 12)))


def test_a_run_without_its_head_says_so(copied):
    cache, store, key = copied
    shutil.rmtree(run_folder(store, key) / "head")
    with pytest.raises(StoreError, match=f"run {key} keeps none"):
        compute_logits(store, key, cache)


def test_validation_images_of_a_cross_validated_run_are_left_out(write_cache, tmp_path):
    cache, store = write_cache(tmp_path / "cache"), tmp_path / "store"
    splits = {"test": {"split": {"folds": 3}}, "none": {"split": {"folds": 3, "test": 0}}}
    for name, options in splits.items():
        bench = BenchSpec(caches=(str(cache),), store=str(store), preset="ridge", seeds=(0,), **options)
        list(run_bench(bench))
        ((key,),) = bench_rows(bench)[0].rows.values()
        if name == "test":
            compute_logits(store, key, cache)
            assert set(read_logits(store, key).rows) == {"test"}
        else:
            with pytest.raises(StoreError, match="was in the end trained on all of them"):
                compute_logits(store, key, cache)
