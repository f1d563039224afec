"""A simple head that does better on held-out training rows is reported, and no other."""

import numpy as np
import pytest

from frostbench.benchmarks.arrays import cache_of
from frostbench.benchmarks.auto.simple_heads import _best, better_simple_head
from frostbench.benchmarks.comparison.frame import Frame, Predictions
from frostbench.benchmarks.runs.keys import bench_rows
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.store import read_record
from frostbench.benchmarks.settings.plan import BenchSpec


def trained(tmp_path, x, labels, groups=None, **changes):
    """The bench and record of one trained run, by the preset plain."""
    cache = cache_of(x, labels, groups, None, None, tmp_path / "cache").folder
    bench = BenchSpec(caches=(str(cache),), store=str(tmp_path / "store"), preset="plain", base=changes, seeds=(0,))
    list(run_bench(bench))
    (key,) = bench_rows(bench)[0].rows["plain"]
    return bench, read_record(tmp_path / "store", key)


def clouds(spread, rows=240, dims=12, classes=4, widest=2):
    generator = np.random.default_rng(0)
    labels = np.arange(rows) % classes
    scale = np.logspace(0, widest, dims)
    x = (2.5 * np.eye(classes, dims)[labels] + spread * generator.normal(size=(rows, dims))) * scale
    return x.astype(np.float32), labels


def test_a_head_that_was_hardly_trained_is_beaten(tmp_path):
    x, labels = clouds(1.0)
    few = {"train.schedule.epochs": 1, "train.schedule.min_steps": 0, "train.optim.lr": 1e-5}
    better = better_simple_head(*trained(tmp_path, x, labels, **few))
    assert better is not None
    assert better.low > 0
    assert better.value > better.own + 0.3
    assert better.options.startswith("--preset ")
    assert f"macro F1 {better.value:.3f} against {better.own:.3f}" in str(better)


def test_a_closed_form_head_is_not_beaten_by_itself(tmp_path):
    x, labels = clouds(1.0, widest=0)
    solved = {"head.classifier.kind": "lda"}
    assert better_simple_head(*trained(tmp_path, x, labels, **solved)) is None


def test_groups_stay_whole_in_the_folds(tmp_path):
    """Each group has one class and a place of its own: with its own rows in training everything is right."""
    generator = np.random.default_rng(1)
    groups = np.arange(240) // 4
    labels = groups % 3
    x = 5 * generator.normal(size=(60, 16))[groups] + 0.1 * generator.normal(size=(240, 16))
    few = {"train.schedule.epochs": 1, "train.schedule.min_steps": 0, "train.optim.lr": 1e-5}
    better = better_simple_head(*trained(tmp_path, x.astype(np.float32), labels, groups, **few))
    assert better is None or better.value < 0.6


def test_rows_of_one_group_cannot_be_cross_validated(tmp_path):
    x, labels = clouds(1.0)
    roles = np.where(np.arange(240) % 2 == 0, "train", "select")
    groups = np.where(roles == "train", "a", np.arange(240).astype(str))
    cache = cache_of(x, labels, groups, None, roles, tmp_path / "cache").folder
    bench = BenchSpec(
        caches=(str(cache),),
        store=str(tmp_path / "store"),
        preset="plain",
        base={"head.classifier.kind": "lda"},
        seeds=(0,),
        split={"source": "given", "test": 0, "calibrate": 0},
    )
    list(run_bench(bench))
    (key,) = bench_rows(bench)[0].rows["plain"]
    with pytest.raises(ValueError, match="groups"):
        better_simple_head(bench, read_record(tmp_path / "store", key))


class TestBest:
    frame = Frame(np.arange(300) % 3, np.arange(300), np.array([100, 100, 100]))

    def said(self, wrong):
        predicted = self.frame.labels.copy()
        predicted[:wrong] = (predicted[:wrong] + 1) % 3
        one = np.ones(300)
        return Predictions(predicted, one, one, np.zeros(300), np.zeros(300))

    def test_the_best_is_taken_where_its_interval_lies_above_0(self):
        found = _best(self.frame, {"": self.said(60), "good": self.said(30), "fair": self.said(40)})
        assert (found.options, round(found.value, 2), round(found.own, 2)) == ("good", 0.9, 0.8)
        assert 0 < found.low < found.value - found.own < found.high

    def test_a_difference_within_the_noise_names_nobody(self):
        assert _best(self.frame, {"": self.said(31), "good": self.said(30)}) is None

    def test_a_run_that_failed_in_the_folds_is_compared_with_nobody(self):
        assert _best(self.frame, {"good": self.said(30)}) is None
        assert _best(self.frame, {"": self.said(30)}) is None
