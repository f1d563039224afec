import itertools

import numpy as np
import pytest
import torch

from benchmarks.bootstrap import HIGHER_IS_BETTER, Answers, Frame, class_f1, group_sums, metrics_of, resamples
from benchmarks.significance import interval
from training.metrics import all_metrics, brier, confidence


def answers(predicted):
    n = len(predicted)
    return Answers(np.array(predicted), np.full(n, 0.5), np.full(n, -0.7), np.full(n, 0.5))


def test_every_resample_of_three_groups():
    """The 27 equally likely resamples; figures computed independently, row by row."""
    labels, groups = np.array([1, 1, 2, 2, 1, 2]), np.array([0, 0, 1, 1, 2, 2])
    frame = Frame(labels, groups, np.array([0, 5, 5]))
    first, second = (group_sums(frame, answers(p)) for p in ([1, 2, 2, 2, 2, 2], [1, 1, 2, 1, 1, 2]))
    draws = np.array([np.bincount(d, minlength=3) for d in itertools.product(range(3), repeat=3)], dtype=float)
    ones = np.ones((1, 3))
    a, b = (metrics_of(frame, sums, ones)["macro_f1_fg"] for sums in (first, second))
    assert float(b[0] - a[0]) == pytest.approx(0.2035714286, abs=1e-10)
    a, b = (metrics_of(frame, sums, draws)["macro_f1_fg"] for sums in (first, second))
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
    told = Answers(log_p.argmax(1).numpy(), sure, own, brier(log_p, labels).numpy())
    found = metrics_of(frame, group_sums(frame, told), np.ones((1, frame.n_groups)))
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
    weighted = metrics_of(
        frame, group_sums(frame, answers(predicted)), np.bincount(drawn, minlength=10)[None].astype(float)
    )
    repeated = Frame(labels[rows], np.repeat(np.arange(10), 3), counts)
    plain = metrics_of(repeated, group_sums(repeated, answers(predicted[rows])), np.ones((1, 10)))
    assert {k: float(v[0]) for k, v in weighted.items()} == pytest.approx({k: float(v[0]) for k, v in plain.items()})


def test_f1_of_classes_averages_to_macro_f1():
    rng = np.random.default_rng(0)
    frame = Frame(rng.integers(0, 3, 30), np.arange(30) // 3, np.array([200, 50, 5]))
    sums = group_sums(frame, answers(rng.integers(0, 3, 30)))
    (draws,) = resamples(10, 20, 0)
    assert class_f1(frame, sums, draws).mean(0) == pytest.approx(metrics_of(frame, sums, draws)["macro_f1_fg"])


def test_metrics_without_a_class_are_left_out():
    frame = Frame(np.array([0, 1]), np.array([0, 1]), np.array([500, 500]))
    found = metrics_of(frame, group_sums(frame, answers([0, 0])), np.ones((1, 2)))
    assert set(HIGHER_IS_BETTER) - set(found) == {"recall_medium", "recall_few"}


def test_resamples_draw_as_many_groups_as_there_are_and_do_not_depend_on_the_pieces():
    whole = np.concatenate(list(resamples(50, 300, seed=1)))
    pieces = list(resamples(50, 300, seed=1, width=2**23))
    assert len(pieces) > 1
    assert np.array_equal(whole, np.concatenate(pieces))
    assert (whole.sum(1) == 50).all()
    assert whole.mean() == 1
    assert whole.var() == pytest.approx(1 - 1 / 50, abs=0.05)


def test_thin_classes_have_few_rows_or_few_groups():
    labels = np.array([0] * 5 + [1] * 4 + [2] * 6)
    groups = np.array([0, 1, 2, 2, 2, 3, 4, 5, 6, 7, 7, 7, 8, 8, 8])
    assert Frame(labels, groups, np.full(4, 9)).thin().tolist() == [False, True, True, False]
