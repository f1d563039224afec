import numpy as np
import pytest
import torch
from sklearn import metrics as sk
from torchmetrics.functional.classification import multiclass_calibration_error

from frostbench.training.metrics.classification import (
    all_metrics,
    brier,
    confusion,
    decision_metrics,
    expected_calibration_error,
    per_class,
    probability_metrics,
)

Y = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2, 3])
P = torch.tensor([0, 0, 0, 1, 1, 1, 0, 2, 0, 0])
TRAIN = torch.tensor([101, 100, 20, 19])
Z4 = torch.tensor(
    [[2.0, 0.5, -1.0, 0.0], [0.2, 1.5, 0.3, -0.5], [1.0, 0.0, 3.0, -2.0], [4.0, -3.0, 0.5, 1.0]], dtype=torch.float64
)
Y4 = torch.tensor([0, 1, 3, 0])


def test_foreground_metrics_match_the_vectors():
    found = decision_metrics(Y, P, TRAIN, background=[0])
    assert found["macro_f1_fg"] == pytest.approx(0.4444444444)
    assert found["weighted_f1_fg"] == pytest.approx(0.5555555556)
    assert found["macro_precision_fg"] == pytest.approx(0.5555555556)
    assert found["macro_recall_fg"] == pytest.approx(0.3888888889)
    assert found["balanced_accuracy"] == pytest.approx(0.4791666667)
    assert found["n_fg_evaluated"] == 3
    assert decision_metrics(Y, P, TRAIN)["macro_f1_fg"] == pytest.approx(0.4833333333)


def test_many_medium_and_few_follow_the_training_counts():
    found = decision_metrics(Y, P, TRAIN)
    assert found["recall_many"] == pytest.approx(3 / 4)
    assert found["recall_medium"] == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert found["recall_few"] == 0
    assert decision_metrics(Y, P, torch.tensor([200, 200, 200, 200]))["recall_few"] is None


def test_a_class_without_rows_counts_only_in_the_metric_over_all_known_classes():
    labels, predicted = torch.tensor([0, 1, 1]), torch.tensor([0, 1, 2])
    found = decision_metrics(labels, predicted, torch.tensor([5, 5, 5]))
    assert found["macro_f1_fg"] == pytest.approx((1 + 2 / 3) / 2)
    assert found["macro_f1_fg_all"] == pytest.approx((1 + 2 / 3 + 0) / 3)


def test_metrics_equal_scikit_learn_on_random_rows():
    rng = np.random.default_rng(0)
    labels, predicted = rng.integers(0, 6, 500), rng.integers(0, 6, 500)
    found = decision_metrics(torch.tensor(labels), torch.tensor(predicted), torch.full((6,), 50), background=[2])
    fg = [0, 1, 3, 4, 5]
    assert found["macro_f1_fg"] == pytest.approx(sk.f1_score(labels, predicted, labels=fg, average="macro"))
    assert found["weighted_f1_fg"] == pytest.approx(sk.f1_score(labels, predicted, labels=fg, average="weighted"))
    assert found["macro_precision_fg"] == pytest.approx(
        sk.precision_score(labels, predicted, labels=fg, average="macro")
    )
    assert found["balanced_accuracy"] == pytest.approx(sk.balanced_accuracy_score(labels, predicted))
    assert found["accuracy"] == pytest.approx(sk.accuracy_score(labels, predicted))
    table = confusion(torch.tensor(labels), torch.tensor(predicted), 6)
    assert np.array_equal(table.numpy(), sk.confusion_matrix(labels, predicted))
    each = sk.precision_recall_fscore_support(labels, predicted)
    ours = per_class(table)
    for mine, theirs in zip((ours.precision, ours.recall, ours.f1, ours.support), each, strict=True):
        assert mine.tolist() == pytest.approx(theirs.tolist())


def test_likelihood_and_brier_match_the_vectors():
    log_p = Z4.log_softmax(1)
    found = probability_metrics(log_p, Y4)
    assert found["nll"] == pytest.approx(1.5328999615254204, abs=1e-12)
    assert found["brier"] == pytest.approx(0.5175869598453262, abs=1e-12)
    wanted = [0.119632183954, 0.234885588453, 1.707325942334, 0.008504124640]
    assert brier(log_p, Y4).tolist() == pytest.approx(wanted, abs=1e-12)


def test_calibration_error_equals_torchmetrics():
    logits = 3 * torch.randn(400, 5, generator=torch.Generator().manual_seed(3))
    labels = torch.arange(400) % 5
    theirs = multiclass_calibration_error(logits.softmax(1), labels, num_classes=5, n_bins=15, norm="l1").item()
    found = probability_metrics(logits.log_softmax(1), labels)["ece"]
    assert found == pytest.approx(theirs, abs=1e-6)


def test_bins_are_closed_on_the_right():
    right = torch.tensor([1.0, 0.0], dtype=torch.float64)
    edge = torch.tensor([0.5, 0.5], dtype=torch.float64)
    assert expected_calibration_error(edge, right, bins=2) == 0
    apart = torch.tensor([0.5, 0.5 + 1e-9], dtype=torch.float64)
    assert expected_calibration_error(apart, right, bins=2) == pytest.approx(0.5, abs=1e-8)


def test_rows_of_untrained_classes_are_counted_and_left_out_of_the_likelihood():
    log_p = torch.tensor([[0.0, -torch.inf], [0.0, -torch.inf]])
    found = probability_metrics(log_p, torch.tensor([0, 1]))
    assert found["nll"] == 0
    assert found["n_untrained"] == 1
    assert found["brier"] == pytest.approx(1.0)


def test_no_rows_is_refused():
    with pytest.raises(ValueError, match="at least one row"):
        all_metrics(torch.zeros(0, 2), torch.zeros(0, dtype=torch.long), torch.tensor([1, 1]))
