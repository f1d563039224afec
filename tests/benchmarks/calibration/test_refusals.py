"""Requests that are refused, with their messages."""

import math

import pytest
from calibrated_benches import bench_of

from frostbench.benchmarks.api import calibration
from frostbench.benchmarks.calibration.runs import RunProbabilities
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.store import StoreError
from frostbench.benchmarks.settings.parsing import SettingsError


class TestRefusals:
    def test_a_run_that_is_missing(self, toy, tmp_path):
        with pytest.raises(StoreError, match="lacks 2 of 2 runs of row 'plain'"):
            calibration(toy.model_copy(update={"store": str(tmp_path)}), resamples=4)

    def test_a_baseline_that_is_none(self, toy):
        with pytest.raises(StoreError, match="got 'arcface'"):
            calibration(toy, baseline="arcface", resamples=4)

    def test_a_cross_validated_split(self, tmp_path, write_cache):
        base = {"head.classifier.kind": "ridge"}
        bench = bench_of(
            tmp_path,
            write_cache(tmp_path / "cache"),
            base=base,
            toggles={},
            ensembles={},
            split={"folds": 3, "select": 0, "calibrate": 0},
        )
        list(run_bench(bench))
        with pytest.raises(SettingsError, match="this split is cross-validated"):
            calibration(bench, resamples=4)


def test_runs_that_all_gave_nan_are_refused(toy, monkeypatch):
    nothing = RunProbabilities({}, {}, math.nan)
    name = "frostbench.benchmarks.calibration.measured.probabilities_of"
    monkeypatch.setattr(name, lambda record, evaluated: nothing)
    with pytest.raises(StoreError, match=r"every run of \['plain', .* gave NaN. Lower train.optim.lr"):
        calibration(toy, resamples=4)
