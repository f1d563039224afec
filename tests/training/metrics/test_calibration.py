"""Calibration metrics: a worked example, invariances, and agreement and differences with other libraries."""

import numpy as np
import pytest
import torch
from netcal import metrics as netcal
from sklearn.metrics import log_loss
from torchmetrics.functional.classification import binary_calibration_error, multiclass_calibration_error

from frostbench.training.metrics.bins import BinSums, adaptive_ece, bin_of, official_adaptive_ece
from frostbench.training.metrics.calibration import (
    HIGHER_IS_BETTER,
    TITLES,
    UNDIRECTED,
    Judged,
    calibration_metrics,
    measured,
)
from frostbench.training.metrics.classification import all_metrics, confidence_bin

P = torch.tensor(
    [
        [0.95, 0.03, 0.02],
        [0.90, 0.06, 0.04],
        [0.05, 0.88, 0.07],
        [0.10, 0.15, 0.75],
        [0.25, 0.70, 0.05],
        [0.62, 0.28, 0.10],
        [0.30, 0.15, 0.55],
        [0.45, 0.35, 0.20],
        [0.02, 0.97, 0.01],
        [0.04, 0.03, 0.93],
    ],
    dtype=torch.float64,
)
Y = torch.tensor([0, 0, 1, 2, 0, 0, 1, 1, 2, 2])
WORKED = Judged.of(P.log(), Y)
EDGES, RIGHT = np.array([0.5, 0.6, 0.8, 0.9, 1.0]), np.array([True, False, True, True, False])


def random_rows(rows=400, classes=5, seed=0, sharpness=2.0):
    logits = sharpness * torch.randn(rows, classes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    labels = torch.multinomial((logits / 1.5).softmax(1), 1, generator=torch.Generator().manual_seed(seed + 1))
    return logits.log_softmax(1), labels.squeeze(1)


def test_the_worked_example_has_its_values():
    wanted = {
        "ece": 0.354,
        "ece_over": 0.262,
        "ece_under": 0.092,
        "aece": 0.364,
        "cece": 0.26333333333333336,
        "mce": 0.70,
        "rmsce": 0.4065874239734099,
        "nll": 1.006118240427742,
        "brier": 0.51324,
        "brier_mean": 0.17108,
    }
    found = calibration_metrics(P.log(), Y)
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, abs=1e-12)
    assert found["smece"] == pytest.approx(0.17, abs=1e-5)
    assert list(found) == [*TITLES, "brier_mean"]
    assert HIGHER_IS_BETTER.keys() | set(UNDIRECTED) == TITLES.keys()
    assert [name for name, up in HIGHER_IS_BETTER.items() if up] == ["brier_resolution"]


@pytest.mark.parametrize(
    ("bins", "ece", "over", "under"), [(15, 0.354, 0.262, 0.092), (10, 0.264, 0.217, 0.047), (5, 0.17, 0.17, 0.0)]
)
def test_ece_and_its_two_parts_for_other_numbers_of_bins(bins, ece, over, under):
    found = BinSums.of(WORKED.confidences, WORKED.right, bins)
    assert found.ece == pytest.approx([ece], abs=1e-12)
    assert found.over == pytest.approx([over], abs=1e-12)
    assert found.under == pytest.approx([under], abs=1e-12)


@pytest.mark.parametrize(("bins", "ours"), [(3, 0.264), (5, 0.278), (15, 0.364)])
def test_adaptive_ece(bins, ours):
    assert adaptive_ece(WORKED.confidences, WORKED.right, bins) == pytest.approx([ours], abs=1e-12)


def test_adaptive_ece_splits_sorted_rows_as_numpy_does():
    rng = np.random.default_rng(0)
    sure, right = rng.random(77).round(1), rng.random(77) < 0.5
    order = np.argsort(sure, kind="stable")
    parts = np.array_split((sure - right)[order], 15)
    assert adaptive_ece(sure, right) == pytest.approx([sum(abs(part.sum()) for part in parts) / 77], abs=1e-12)


@pytest.mark.parametrize(("bins", "theirs"), [(5, 0.193), (15, 0.319)])
def test_the_official_adaptive_ece_drops_the_row_with_the_lowest_confidence(bins, theirs):
    assert official_adaptive_ece(WORKED.confidences, WORKED.right, bins) == pytest.approx(theirs, abs=1e-12)
    lowest = WORKED.confidences.argmin()
    other = WORKED.right.copy()
    other[lowest] = ~other[lowest]
    assert official_adaptive_ece(WORKED.confidences, other, bins) == pytest.approx(theirs, abs=1e-12)
    assert adaptive_ece(WORKED.confidences, other, bins) != pytest.approx(
        adaptive_ece(WORKED.confidences, WORKED.right, bins)
    )


def test_bins_equal_those_of_classification():
    sure = np.array([0.0, 0.25, 0.25 + 1e-12, 0.5, 1.0, 0.6, 1 / 15, 2 / 15])
    for bins in (4, 15):
        assert bin_of(sure, bins).tolist() == confidence_bin(torch.from_numpy(sure), bins).tolist()
    edges = np.linspace(0, 1, 5)
    assert bin_of(sure, 4).tolist() == np.clip(np.searchsorted(edges, sure, side="left") - 1, 0, 3).tolist()


def test_metrics_shared_with_classification_are_equal():
    log_p, labels = random_rows()
    log_p[:, 4] = -torch.inf
    there, here = all_metrics(log_p, labels, torch.full((5,), 9)), calibration_metrics(log_p, labels)
    for name in ("nll", "brier", "ece"):
        assert here[name] == pytest.approx(there[name], abs=1e-12)


def test_over_and_under_sum_to_the_ece():
    for seed in range(5):
        found = calibration_metrics(*random_rows(seed=seed, sharpness=1 + seed))
        assert found["ece_over"] + found["ece_under"] == pytest.approx(found["ece"], abs=1e-14)
        assert 0 <= found["ece"] <= found["rmsce"] + 1e-12 <= found["mce"] + 2e-12


def test_the_order_of_rows_and_of_classes_does_not_matter():
    log_p, labels = random_rows()
    rows, classes = torch.randperm(400), torch.randperm(5)
    back = classes.argsort()
    first = calibration_metrics(log_p, labels)
    assert calibration_metrics(log_p[rows], labels[rows]) == pytest.approx(first, abs=1e-12)
    assert calibration_metrics(log_p[:, classes], back[labels]) == pytest.approx(first, abs=1e-12)


def test_an_integer_weight_equals_that_many_copies():
    log_p, labels = random_rows(rows=60)
    counts = np.random.default_rng(1).integers(0, 4, (60, 7))
    counts[:, 0] = 1
    found = measured(Judged.of(log_p, labels), counts.astype(float))
    for column in range(7):
        copies = torch.from_numpy(np.repeat(np.arange(60), counts[:, column]))
        alone = calibration_metrics(log_p[copies], labels[copies])
        for name, values in found.items():
            assert values[column] == pytest.approx(alone[name], abs=2e-5 if name == "smece" else 1e-9), name


def test_classes_absent_from_labels_count_in_class_wise_ece():
    p = torch.tensor([[0.5, 0.3, 0.2], [0.6, 0.3, 0.1]], dtype=torch.float64)
    # Class 2 has no row: its probabilities lie in bins 0.2 and 0.1, whose frequencies are 0.
    found = Judged.of(p.log(), torch.tensor([0, 1])).classes.sums().ece[:, 0]
    assert found == pytest.approx([(0.5 + 0.6) / 2, (0.7 - 0.3) / 2, (0.2 + 0.1) / 2], abs=1e-12)
    assert calibration_metrics(p.log(), torch.tensor([0, 1]))["cece"] == pytest.approx(found.mean())


def test_class_wise_ece_of_each_class():
    assert WORKED.classes.sums().ece[:, 0] == pytest.approx([0.224, 0.354, 0.212], abs=1e-12)


def test_class_wise_ece_is_the_ece_of_each_probability():
    log_p, labels = random_rows()
    found = Judged.of(log_p, labels).classes.sums().ece[:, 0]
    wanted = [BinSums.of(log_p[:, k].exp().numpy(), (labels == k).numpy()).ece[0] for k in range(5)]
    assert found == pytest.approx(wanted, abs=1e-12)


def test_a_perfect_head_has_no_error():
    labels = torch.tensor([0, 1, 2, 1])
    log_p = torch.full((4, 3), -torch.inf).scatter(1, labels[:, None], 0.0)
    found = calibration_metrics(log_p, labels)
    kept = {"brier_resolution", "brier_uncertainty"}
    assert {name: value for name, value in found.items() if name not in kept} == pytest.approx(
        dict.fromkeys(found.keys() - kept, 0.0), abs=1e-6
    )
    assert found["brier_resolution"] == pytest.approx(found["brier_uncertainty"])


def test_a_head_that_is_sure_and_wrong():
    log_p = torch.full((4, 2), -torch.inf).scatter(1, torch.zeros(4, 1, dtype=torch.long), 0.0)
    found = calibration_metrics(log_p, torch.ones(4, dtype=torch.long))
    for name in ("ece", "ece_over", "aece", "cece", "mce", "rmsce", "smece", "aurc"):
        assert found[name] == pytest.approx(1.0, abs=1e-5), name
    assert (found["nll"], found["ece_under"], found["brier"]) == (None, 0.0, 2.0)


def test_a_head_that_always_predicts_the_class_shares_is_calibrated():
    labels = torch.tensor([0] * 6 + [1] * 3 + [2])
    log_p = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64).log().expand(10, 3)
    found = calibration_metrics(log_p, labels)
    for name in ("ece", "cece", "smece", "rmsce", "brier_reliability", "brier_resolution"):
        assert found[name] == pytest.approx(0.0, abs=1e-5), name
    assert found["brier"] == pytest.approx(found["brier_uncertainty"])
    assert found["aurc"] == pytest.approx(0.4)


def test_nan_has_no_metrics():
    log_p, labels = random_rows(rows=10)
    log_p[3, 2] = torch.nan
    assert set(calibration_metrics(log_p, labels).values()) == {None}


def test_no_rows_are_refused():
    with pytest.raises(ValueError, match="need at least one row, got none"):
        calibration_metrics(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long))


class TestOtherLibraries:
    def test_scikit_learn_has_the_same_likelihood(self):
        log_p, labels = random_rows()
        found = calibration_metrics(log_p, labels)["nll"]
        assert found == pytest.approx(log_loss(labels, log_p.exp().numpy(), labels=range(5)), abs=1e-9)

    @pytest.mark.parametrize(("norm", "name"), [("l1", "ece"), ("l2", "rmsce"), ("max", "mce")])
    def test_torchmetrics_agrees_where_no_confidence_is_one(self, norm, name):
        log_p, labels = random_rows()
        theirs = multiclass_calibration_error(log_p.exp(), labels, num_classes=5, n_bins=15, norm=norm).item()
        assert calibration_metrics(log_p, labels)[name] == pytest.approx(theirs, abs=1e-6)
        worked = multiclass_calibration_error(P, Y, num_classes=3, n_bins=15, norm=norm).item()
        assert calibration_metrics(P.log(), Y)[name] == pytest.approx(worked, abs=1e-6)

    def test_torchmetrics_puts_a_confidence_of_one_into_a_bin_of_its_own(self):
        """Reported as https://github.com/Lightning-AI/torchmetrics/issues/3510."""
        sure, right = torch.from_numpy(EDGES), torch.from_numpy(RIGHT).long()
        assert binary_calibration_error(sure, right, n_bins=4, norm="l1").item() == pytest.approx(0.28, abs=1e-6)
        assert BinSums.of(EDGES, RIGHT, 4).ece == pytest.approx([0.36], abs=1e-12)

    def test_netcal_agrees_where_no_confidence_is_an_edge(self):
        ours = calibration_metrics(P.log(), Y)
        assert netcal.ECE(15).measure(P.numpy(), Y.numpy()) == pytest.approx(ours["ece"], abs=1e-9)
        assert netcal.MCE(15).measure(P.numpy(), Y.numpy()) == pytest.approx(ours["mce"], abs=1e-9)
        equal_mass = netcal.ECE(5, equal_intervals=False).measure(P.numpy(), Y.numpy())
        assert equal_mass == pytest.approx(adaptive_ece(WORKED.confidences, WORKED.right, 5)[0], abs=1e-9)

    def test_netcal_closes_its_bins_on_the_left(self):
        assert netcal.ECE(4).measure(EDGES, RIGHT.astype(int)) == pytest.approx(0.16, abs=1e-6)
        assert BinSums.of(EDGES, RIGHT, 4).ece == pytest.approx([0.36], abs=1e-12)

    def test_netcal_takes_labels_of_two_classes_for_a_binary_problem(self):
        """For two classes it measures the probability of the second class; for more it raises."""
        labels = torch.tensor([0, 1, 0, 1, 0, 1, 0, 1, 0, 1])
        with pytest.raises(RuntimeError, match="binary classification"):
            netcal.ECE(15).measure(P.numpy(), labels.numpy())
        assert calibration_metrics(P.log(), labels)["ece"] > 0
        second = torch.tensor([0.93, 0.88, 0.12, 0.41, 0.35, 0.27, 0.62, 0.71, 0.06, 0.18], dtype=torch.float64)
        both = torch.stack([1 - second, second], 1)
        theirs = netcal.ECE(15).measure(both.numpy(), labels.numpy())
        assert theirs == pytest.approx(BinSums.of(second.numpy(), (labels == 1).numpy()).ece[0], abs=1e-9)
        assert theirs != pytest.approx(calibration_metrics(both.log(), labels)["ece"], abs=0.01)
