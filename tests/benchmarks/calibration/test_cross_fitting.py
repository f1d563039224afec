"""Rows used for selection or fitting are evaluated by cross-fitting."""

from pathlib import Path

import pytest
from calibrated_benches import bench_of

from frostbench.benchmarks.api import calibration
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.store import read_record


def test_without_calibration_rows_temperatures_are_cross_fitted_with_a_note(tmp_path, write_cache):
    cache = write_cache(tmp_path / "cache")
    bench = bench_of(tmp_path, cache, toggles={}, ensembles={}, split={"calibrate": 0})
    list(run_bench(bench))
    (select,), (test,) = calibration(bench, resamples=20), calibration(bench, "test", resamples=20)
    assert "each fold of the evaluated rows (with whole groups)" in select.notes[0]
    assert "fitted to the validation rows (select)" in test.notes[0]
    assert select.temperatures["plain"] == pytest.approx(test.temperatures["plain"])
    assert select.sides == ["before", "after"]
    (key, _) = select.rows["plain"]
    held = read_record(Path(bench.store), key).evaluations["test"].calibration["after"]["temperature"]
    assert held == pytest.approx(test.temperatures["plain"][0], rel=1e-6)


def test_heads_fitted_to_selection_rows_are_cross_fitted_on_them_as_their_records_are(tmp_path, write_cache):
    toggles = {"on select": {"posthoc.calibration.kind": "vector", "posthoc.rows": "select"}}
    bench = bench_of(tmp_path, write_cache(tmp_path / "cache"), toggles=toggles, ensembles={}, seeds=(0,))
    list(run_bench(bench))
    (select,), (test,) = calibration(bench, resamples=20), calibration(bench, "test", resamples=20)
    held = read_record(tmp_path / "s", select.rows["on select"][0]).evaluations
    for report, role in ((select, "select"), (test, "test")):
        assert report.line("as_is", "on select", "nll")["value"] == pytest.approx(held[role].metrics["nll"], abs=1e-6)
