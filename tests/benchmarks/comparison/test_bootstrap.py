import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from frostbench.benchmarks.comparison.bootstrap import point_sums, resampled_sums, sums_of
from frostbench.benchmarks.comparison.frame import Frame, Predictions
from frostbench.benchmarks.comparison.metrics import HIGHER_IS_BETTER, metrics_of
from frostbench.benchmarks.comparison.significance import interval
from frostbench.training.metrics.classification import all_metrics, brier, confidence


def predictions_of(predicted):
    n = len(predicted)
    return Predictions(np.array(predicted), np.full(n, 0.5), np.full(n, 0.5), np.full(n, -0.7), np.full(n, 0.5))


def test_every_resample_of_three_groups():
    """The 27 equally likely resamples; figures computed independently, row by row."""
    labels, groups = np.array([1, 1, 2, 2, 1, 2]), np.array([0, 0, 1, 1, 2, 2])
    frame = Frame(labels, groups, np.array([0, 5, 5]))
    runs = [predictions_of(p) for p in ([1, 2, 2, 2, 2, 2], [1, 1, 2, 1, 1, 2])]
    draws = np.array([np.bincount(d, minlength=3) for d in itertools.product(range(3), repeat=3)], dtype=float)
    a, b = (metrics_of(frame, sums)["macro_f1_fg"] for sums in point_sums(frame, runs))
    assert float(b[0] - a[0]) == pytest.approx(0.2035714286, abs=1e-10)
    a, b = (metrics_of(frame, sums)["macro_f1_fg"] for sums in sums_of(frame, runs, draws.T))
    assert float((b - a).mean()) == pytest.approx(0.2507736091, abs=1e-10)
    assert interval(b - a) == pytest.approx((-0.1305555556, 0.5676190476), abs=1e-10)
    assert float((b - a <= 0).mean()) == pytest.approx(0.1481481481, abs=1e-10)


def test_a_row_of_ones_gives_the_metrics_of_training():
    generator = torch.Generator().manual_seed(3)
    labels = torch.randint(0, 5, (400,), generator=generator)
    log_p = (torch.randn(400, 7, generator=generator) + torch.nn.functional.one_hot(labels, 7)).log_softmax(1)
    log_p[:, 6] = -torch.inf
    labels[:3] = 6
    counts, background = torch.tensor([500, 100, 20, 19, 50, 3, 0]), (1, 6)
    expected = all_metrics(log_p, labels, counts, background)
    groups = np.arange(400) // 3
    frame = Frame(labels.numpy(), groups, counts.numpy(), background)
    own = log_p.double().gather(1, labels[:, None]).squeeze(1).numpy()
    sure = confidence(log_p, labels)[0].numpy()
    told = Predictions(log_p.argmax(1).numpy(), sure, sure, own, brier(log_p, labels).numpy())
    found = metrics_of(frame, *point_sums(frame, [told]))
    assert set(found) == set(HIGHER_IS_BETTER)
    assert {name: float(value[0]) for name, value in found.items()} == pytest.approx(
        {name: expected[name] for name in found}, abs=1e-12
    )


def test_a_multiplicity_is_the_same_as_repeating_rows():
    rng = np.random.default_rng(0)
    labels, groups, predicted = rng.integers(0, 3, 30), np.arange(30) // 3, rng.integers(0, 3, 30)
    drawn = rng.integers(0, 10, 10)
    rows = np.concatenate([np.flatnonzero(groups == g) for g in drawn])
    counts = np.array([200, 50, 5])
    frame = Frame(labels, groups, counts)
    multiplicities = np.bincount(drawn, minlength=10)[:, None].astype(float)
    weighted = metrics_of(frame, *sums_of(frame, [predictions_of(predicted)], multiplicities))
    repeated = Frame(labels[rows], np.repeat(np.arange(10), 3), counts)
    plain = metrics_of(repeated, *point_sums(repeated, [predictions_of(predicted[rows])]))
    assert {k: float(v[0]) for k, v in weighted.items()} == pytest.approx({k: float(v[0]) for k, v in plain.items()})


def test_the_sums_of_several_runs_are_those_of_each_alone():
    rng = np.random.default_rng(0)
    frame = Frame(rng.integers(0, 3, 300), np.arange(300) // 3, np.array([200, 50, 5]))
    runs = [predictions_of(rng.integers(0, 3, 300)) for _ in range(3)]
    runs[1] = replace(runs[1], log_p=np.where(frame.labels == 2, -np.inf, -0.3))
    alone = [metrics_of(frame, *point_sums(frame, [run])) for run in runs]
    together = [metrics_of(frame, sums) for sums in point_sums(frame, runs)]
    for one, other in zip(together, alone, strict=True):
        assert {k: v[0] for k, v in one.items()} == {k: v[0] for k, v in other.items()}
    assert together[1]["nll"][0] == pytest.approx(0.3)
    assert together[0]["nll"][0] == pytest.approx(0.7)


@pytest.mark.parametrize("n_groups", [40, 9000])
def test_resampled_sums_spread_as_they_should_and_equal_runs_get_equal_ones(n_groups):
    """The standard deviation of a share p is sqrt(p (1 - p) / G); of equal runs not the last bit differs."""
    rng = np.random.default_rng(1)
    frame = Frame(rng.integers(0, 3, n_groups), np.arange(n_groups), np.array([200, 50, 5]))
    run = predictions_of(np.where(rng.uniform(size=n_groups) < 0.7, frame.labels, 0))
    pieces = list(resampled_sums(frame, [run, run], 400, seed=3))
    assert [piece.start for piece, _ in pieces] == [0, *(piece.stop for piece, _ in pieces[:-1])]
    assert pieces[-1][0].stop == 400
    for name in ("accuracy", "nll", "macro_f1_fg", "ece"):
        first, second = (np.concatenate([metrics_of(frame, s[i])[name] for _, s in pieces]) for i in (0, 1))
        assert np.array_equal(first, second), name
    accuracy = np.concatenate([metrics_of(frame, sums[0])["accuracy"] for _, sums in pieces])
    share = (run.predicted == frame.labels).mean()
    spread = math.sqrt(share * (1 - share) / n_groups)
    assert accuracy.mean() == pytest.approx(share, abs=4 * spread / 20)
    assert accuracy.std() == pytest.approx(spread, rel=0.15)


def test_metrics_without_a_class_are_left_out():
    frame = Frame(np.array([0, 1]), np.array([0, 1]), np.array([500, 500]))
    found = metrics_of(frame, *point_sums(frame, [predictions_of([0, 0])]))
    assert set(HIGHER_IS_BETTER) - set(found) == {"recall_medium", "recall_few"}


def test_thin_classes_have_few_rows_or_few_groups():
    labels = np.array([0] * 5 + [1] * 4 + [2] * 6)
    groups = np.array([0, 1, 2, 2, 2, 3, 4, 5, 6, 7, 7, 7, 8, 8, 8])
    assert Frame(labels, groups, np.full(4, 9)).thin().tolist() == [False, True, True, False]
