"""Variance corrections for groups, checked against simulated resamples."""

import numpy as np
import pytest

from frostbench.benchmarks.comparison.frame import Frame
from frostbench.benchmarks.comparison.groups import (
    GAP_GROWTH,
    OF_GAPS,
    OF_SEVERAL,
    VarianceCorrection,
    bootstrap_variance,
)
from frostbench.training.metrics.calibration import TITLES


def frame(*counts):
    """One row to a group, and so many groups in each class; the first two classes have few training rows."""
    labels = np.repeat(np.arange(len(counts)), counts)
    return Frame(labels, np.arange(len(labels)), np.array([5, 5] + [200] * (len(counts) - 2)))


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_the_bootstrap_variance_of_a_class(n):
    """A class with n of 60 groups, whose values are normal: the mean variance over resamples of its mean."""
    rng = np.random.default_rng(n)
    found = []
    for _ in range(300):
        values = rng.normal(size=n)
        drawn = rng.multinomial(60, np.full(60, 1 / 60), 300)[:, :n]
        rows = drawn.sum(1)
        means = np.divide(drawn @ values, rows, out=np.zeros(300), where=rows > 0)
        found.append(means.var())
    assert bootstrap_variance(n) == pytest.approx(np.mean(found), rel=0.2)


def test_a_mean_over_all_rows_has_all_groups():
    assert (
        VarianceCorrection.of(frame(3, 3, 94), "accuracy").factor,
        VarianceCorrection.of(frame(3, 3, 94), "nll").freedom,
    ) == (100 / 99, 99)
    assert VarianceCorrection.of(frame(3, 3, 94), "ece").factor == pytest.approx(GAP_GROWTH * 100 / 99)


def test_a_macro_average_depends_on_the_rare_classes():
    """By hand for classes of 1 and 4 groups: sum 1 / n is 1.25, and 1 and 3 degrees of freedom."""
    found = VarianceCorrection.of(frame(1, 4, 95), "recall_few")
    one, four = bootstrap_variance(1), bootstrap_variance(4)
    assert found.factor == pytest.approx(1.25 / (one + four))
    assert found.freedom == pytest.approx(OF_SEVERAL * (one + four) ** 2 / (one**2 + four**2 / 3))
    assert VarianceCorrection.of(frame(1, 4, 95), "recall_many").freedom == pytest.approx(94)


def test_a_class_by_itself_has_its_own_groups():
    found = VarianceCorrection.of_each_class(frame(1, 4, 95))
    assert found.factor[0] == pytest.approx(1 / bootstrap_variance(1))
    assert np.asarray(found.freedom).tolist() == pytest.approx([1, 3, 94])
    assert np.isnan(np.asarray(VarianceCorrection.of_each_class(frame(1, 0, 95)).factor)[1])


def test_one_group_says_nothing():
    whole = Frame(np.zeros(3, np.int64), np.zeros(3, np.int64), np.array([5]))
    assert np.isnan(VarianceCorrection.of(whole, "accuracy").factor)


def test_gaps_are_metrics_of_the_calibration_report():
    assert set(OF_GAPS) <= set(TITLES)
