"""The parts of the Brier score compared with a row-by-row calculation."""

import numpy as np
import pytest
import torch

from frostbench.training.metrics.calibration import calibration_metrics
from frostbench.training.metrics.per_class import ClassBins

P = np.array([[0.9, 0.1], [0.8, 0.2], [0.85, 0.15], [0.3, 0.7], [0.2, 0.8], [0.55, 0.45]])
Y = np.array([0, 0, 1, 1, 1, 0])


def score_of(parts):
    return (
        parts["reliability"]
        - parts["resolution"]
        + parts["uncertainty"]
        + parts["within_variance"]
        - parts["within_covariance"]
    )


def by_hand(p, own, bins):
    """Compute the five parts of one class from its rows, bin by bin."""
    place = np.clip(np.ceil(p * bins) - 1, 0, bins - 1)
    base, parts = own.mean(), np.zeros(5)
    parts[2] = base * (1 - base)
    for b in set(place):
        here = place == b
        share, mean, rate = here.mean(), p[here].mean(), own[here].mean()
        parts[0] += share * (mean - rate) ** 2
        parts[1] += share * (rate - base) ** 2
        parts[3] += share * p[here].var()
        parts[4] += share * 2 * ((p[here] - mean) * (own[here] - rate)).mean()
    return parts


@pytest.mark.parametrize("bins", [1, 2, 5, 15])
def test_parts_equal_those_by_hand(bins):
    found = ClassBins(P, Y, bins).sums().brier_parts
    wanted = sum(by_hand(P[:, k], (k == Y).astype(float), bins) for k in range(2))
    assert [float(part[0]) for part in found.values()] == pytest.approx(wanted.tolist(), abs=1e-12)


@pytest.mark.parametrize("bins", [1, 3, 15])
def test_parts_sum_to_the_score_exactly(bins):
    generator = torch.Generator().manual_seed(0)
    p = torch.randn(300, 7, generator=generator, dtype=torch.float64).mul(2).softmax(1).numpy()
    labels = torch.randint(0, 6, (300,), generator=generator).numpy()
    score = ((p - np.eye(7)[labels]) ** 2).sum(1).mean()
    assert score_of(ClassBins(p, labels, bins).sums().brier_parts) == pytest.approx([score], abs=1e-12)


def test_if_all_probabilities_of_a_bin_are_equal_three_parts_suffice():
    p = np.repeat([[0.2, 0.8], [0.6, 0.4]], 5, axis=0)
    labels = np.array([1, 1, 1, 0, 1, 0, 0, 1, 0, 1])
    parts = ClassBins(p, labels).sums().brier_parts
    assert parts["within_variance"] == pytest.approx([0.0], abs=1e-12)
    assert parts["within_covariance"] == pytest.approx([0.0], abs=1e-12)
    # The class frequencies are 0.8 and 0.4, so both groups are calibrated.
    assert parts["reliability"] == pytest.approx([0.0], abs=1e-12)
    assert parts["resolution"] == pytest.approx([2 * 0.2**2], abs=1e-12)
    assert parts["uncertainty"] == pytest.approx([2 * 0.4 * 0.6], abs=1e-12)


def test_metrics_hold_the_parts():
    log_p = torch.from_numpy(P).log()
    found = calibration_metrics(log_p, torch.from_numpy(Y))
    parts = {name: found[f"brier_{name}"] for name in ClassBins(P, Y).sums().brier_parts}
    assert score_of(parts) == pytest.approx(found["brier"], abs=1e-12)


def test_the_first_bin_holds_what_the_others_leave():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(9, 0.2), 200)
    p[0], labels, weights = np.eye(9)[3], rng.integers(0, 9, 200), rng.integers(0, 3, (200, 4)).astype(float)
    sums = ClassBins(p, labels).sums(weights)
    place = np.clip(np.ceil(p * 15).astype(int) - 1, 0, 14)
    for k in range(9):
        for b in (0, 1, 14):
            here = place[:, k] == b
            assert sums.rows[k, b] == pytest.approx(weights[here].sum(0), abs=1e-9)
            assert sums.p[k, b] == pytest.approx(p[here, k] @ weights[here], abs=1e-9)
            assert sums.members[k, b] == pytest.approx((labels[here] == k) @ weights[here], abs=1e-9)
