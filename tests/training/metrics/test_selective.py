import numpy as np
import pytest

from frostbench.training.metrics.selective import areas, risk_coverage

SURE = np.array([0.9, 0.8, 0.7, 0.6])
RIGHT = np.array([True, False, True, False])


def test_the_curve_of_four_rows():
    found = risk_coverage(SURE, RIGHT)
    assert found.threshold.tolist() == [0.9, 0.8, 0.7, 0.6]
    assert found.coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert found.risk.tolist() == pytest.approx([0, 1 / 2, 1 / 3, 1 / 2])
    assert [found.risk_at(c) for c in (0.0, 0.25, 0.26, 1.0)] == pytest.approx([0, 0, 1 / 2, 1 / 2])


def test_the_area_is_the_mean_risk_and_its_excess_is_over_the_best_order():
    area, excess = areas(SURE, RIGHT)
    assert area == pytest.approx([(0 + 1 / 2 + 1 / 3 + 1 / 2) / 4], abs=1e-12)
    # Both errors last: risks 0, 0, 1/3, 2/4.
    assert excess == pytest.approx([(0 + 1 / 2 + 1 / 3 + 1 / 2 - 1 / 3 - 1 / 2) / 4], abs=1e-12)
    assert areas(SURE, np.array([True, True, False, False]))[1] == pytest.approx([0.0], abs=1e-12)


def test_ties_enter_together_whatever_their_order():
    sure = np.array([0.9, 0.5, 0.5, 0.5])
    for right in ([True, True, False, False], [True, False, False, True], [True, False, True, False]):
        found = risk_coverage(sure, np.array(right))
        assert found.coverage.tolist() == [0.25, 1.0]
        assert found.risk.tolist() == [0.0, 0.5]
        assert areas(sure, np.array(right))[0] == pytest.approx([0.75 * 0.5])


def test_one_confidence_for_all_has_the_error_rate():
    area, excess = areas(np.full(10, 0.7), np.arange(10) < 7)
    assert area == pytest.approx([0.3])
    assert excess == pytest.approx([0.3 - sum(j / (7 + j) for j in (1, 2, 3)) / 10], abs=1e-12)


@pytest.mark.parametrize(("right", "area"), [(True, 0.0), (False, 1.0)])
def test_all_right_and_all_wrong(right, area):
    found = areas(SURE, np.full(4, right))
    assert found[0] == pytest.approx([area], abs=1e-12)
    assert found[1] == pytest.approx([0.0], abs=1e-12)


def test_an_excess_is_never_negative_and_the_order_of_rows_does_not_matter():
    rng = np.random.default_rng(0)
    for _ in range(50):
        sure, right = rng.random(30).round(1), rng.random(30) < 0.7
        order = rng.permutation(30)
        area, excess = areas(sure, right)
        assert excess[0] >= -1e-12
        assert areas(sure[order], right[order])[0] == pytest.approx(area, abs=1e-12)


def test_weights_are_copies():
    rng = np.random.default_rng(1)
    sure, right, counts = rng.random(25), rng.random(25) < 0.6, rng.integers(0, 3, (25, 3))
    found = areas(sure, right, counts.astype(float))
    for column in range(3):
        copies = np.repeat(np.arange(25), counts[:, column])
        wanted = areas(sure[copies], right[copies])
        assert [found[0][column], found[1][column]] == pytest.approx([wanted[0][0], wanted[1][0]], abs=1e-12)


def test_no_rows_are_refused():
    with pytest.raises(ValueError, match="need at least one row"):
        areas(np.zeros(0), np.zeros(0, dtype=bool))
    with pytest.raises(ValueError, match="need at least one row"):
        risk_coverage(np.zeros(0), np.zeros(0, dtype=bool))
