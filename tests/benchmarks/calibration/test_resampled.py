"""Intervals, bins and classes on resamples of given numbers."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from frostbench.benchmarks.calibration.classes import Confidences, class_calibration
from frostbench.benchmarks.calibration.measured import basic_interval
from frostbench.benchmarks.calibration.resampled import Draws, Gathered, binned_accuracy, quantiles
from frostbench.benchmarks.calibration.runs import RunProbabilities
from frostbench.training.metrics.bins import BinSums
from frostbench.training.metrics.calibration import Judged, measured


def test_the_interval_of_a_value_mirrors_the_resamples():
    moved = np.linspace(0.2, 0.4, 1001)
    assert basic_interval(0.25, moved, "ece") == pytest.approx((0.5 - 0.395, 0.5 - 0.205))
    assert basic_interval(0.1, moved, "ece") == (0.0, 0.0)
    assert basic_interval(0.1, moved, "brier_within_covariance")[0] == pytest.approx(0.2 - 0.395)
    assert basic_interval(0.95, moved + 0.4, "auroc_msp") == pytest.approx((1.9 - 0.795, 1.0), abs=0.2)


def test_the_basic_interval_holds_a_known_error_more_often_than_that_of_percentiles():
    """Confidences whose logits are 1.18 times too large: the ECE of endlessly many rows is 0.025."""
    rng = np.random.default_rng(0)
    hits = np.zeros(2)
    for _ in range(60):
        sure = rng.beta(4, 1.5, 400)
        right = rng.random(400) < 1 / (1 + ((1 - sure) / sure) ** 0.85)
        drawn = rng.multinomial(400, np.full(400, 1 / 400), 200).T.astype(float)
        value, moved = BinSums.of(sure, right).ece[0], BinSums.of(sure, right, weights=drawn).ece
        low, high = basic_interval(value, moved, "ece")
        plain = np.percentile(moved, [2.5, 97.5])
        hits += [low <= 0.0253 <= high, plain[0] <= 0.0253 <= plain[1]]
    assert hits[0] >= 40
    assert hits[1] <= 6


def test_a_run_that_gave_nan_leaves_its_row_without_figures():
    log_p = torch.tensor([[0.8, 0.2], [0.4, 0.6], [0.9, 0.1]], dtype=torch.float64).log()
    sound = Judged.of(log_p, torch.tensor([0, 1, 1]))
    broken = Judged.of(log_p * torch.nan, torch.tensor([0, 1, 1]))
    gathered, draws = Gathered(["a", "b"], 2, 20), Draws(np.arange(3), 20, 0)
    for row, seed, judged in (("a", 0, sound), ("a", 1, sound), ("b", 0, sound), ("b", 1, broken)):
        gathered.add(row, seed, RunProbabilities({"before": judged}, {}, math.nan), draws, None)
    found = gathered.of("before")
    assert gathered.sides == ["before"]
    assert np.isfinite(found.values["ece"]).tolist() == [[True, True], [True, False]]
    assert np.isfinite(found.replicates["ece"]).all(1).tolist() == [True, False]
    assert found.replicates["ece"][0] == pytest.approx(measured(sound, next(iter(draws.weights(1)))[1])["ece"])


def test_classes_are_those_that_are_predicted():
    log_p = torch.tensor(
        [[0.8, 0.2, 0.0], [0.6, 0.4, 0.0], [0.1, 0.9, 0.0], [0.3, 0.7, 0.0]], dtype=torch.float64
    ).log()
    judged = Judged.of(log_p, torch.tensor([0, 1, 1, 2]))
    runs = Confidences.joined([Confidences.of(judged), Confidences.of(judged)])
    found = class_calibration(runs, judged.labels, ("a", "b", "c"), Draws(np.arange(4), 200, 0))
    assert [(one.name, one.support, one.predicted) for one in found] == [("a", 1, 2), ("b", 2, 2), ("c", 1, 0)]
    assert found[0].gap == pytest.approx((0.8 + 0.6 - 1) / 2)
    assert found[1].gap == pytest.approx((0.9 + 0.7 - 1) / 2)
    assert math.isnan(found[2].gap)
    assert found[0].low == pytest.approx(-0.2)
    assert found[0].high == pytest.approx(0.6)
    assert found[2].ece == pytest.approx(0.25)


def test_intervals_of_bins_draw_whole_groups():
    places, rights = [np.array([0, 0, 1, 1])], [np.array([1.0, 1.0, 0.0, 1.0])]
    low, high = binned_accuracy(places, rights, 3, Draws(np.array([0, 0, 1, 2]), 500, 0))
    assert (low[0], high[0]) == (1.0, 1.0)
    assert (low[1], high[1]) == (0.0, 1.0)
    assert math.isnan(low[2])


def test_quantiles_leave_out_what_has_no_value():
    low, high = quantiles(np.array([[0.0, np.nan, 1.0], [np.nan, np.nan, np.nan]]))
    assert (low[0], high[0]) == pytest.approx((0.025, 0.975))
    assert math.isnan(low[1])


def test_every_run_gets_the_same_resamples():
    draws = Draws(np.array([0, 0, 1, 2]), 40, 0)
    pieces = [weights for _, weights in draws.weights(2**19)]
    whole = np.concatenate(pieces, axis=1)
    assert len(pieces) == 3
    assert whole.shape == (4, 40)
    assert (whole[0] == whole[1]).all()
    assert set((whole[1] + whole[2] + whole[3]).tolist()) == {3.0}
    assert not np.array_equal(whole, np.concatenate([w for _, w in replace(draws, seed=1).weights(2**19)], axis=1))
