import math

import numpy as np
import pytest

from benchmarks.significance import grown, holm, p_value


def test_p_values_at_their_ends():
    assert p_value(np.zeros(100)) == 1
    assert p_value(np.ones(100)) == 0.01
    assert p_value(np.array([-1.0] * 10 + [1.0] * 90)) == pytest.approx(0.2)


def test_holm_is_monotone_and_at_most_one():
    assert holm([0.5, 0.9, 0.01]) == pytest.approx([1.0, 1.0, 0.03])
    assert holm([]) == []
    assert holm([0.03, math.nan, 0.02]) == pytest.approx([0.04, math.nan, 0.04], nan_ok=True)


def test_what_is_not_a_number_has_no_p():
    assert math.isnan(p_value(np.array([0.1, math.nan])))
    assert math.isnan(p_value(np.array([0.1, math.inf])))
    assert math.isnan(p_value(np.array([0.1, 0.2]), np.array([0.1, math.nan])))


def test_without_doubt_over_groups_the_p_is_that_of_a_t_test():
    """In closed form: 1 - 2 / pi atan(t) for one degree of freedom, 1 - t / sqrt(2 + t²) for two."""
    assert p_value(np.full(2000, 0.3), np.array([0.1, 0.5])) == pytest.approx(1 - 2 / math.pi * math.atan(1.5))
    t = 0.7 / 3 / math.sqrt(0.07 / 3 / 3)
    by_seed = np.array([0.1, 0.2, 0.4])
    assert p_value(np.full(2000, 0.7 / 3), by_seed) == pytest.approx(1 - t / math.sqrt(2 + t * t))


def test_one_group_and_one_seed_add_no_doubt():
    deltas = np.array([0.1, 0.3])
    assert grown(deltas, 0.2, 1) is deltas
    assert p_value(deltas, np.array([0.2])) == p_value(deltas) == 0.5


def test_few_groups_widen_by_the_t_quantile():
    assert grown(np.array([0.0, 0.4]), 0.2, 20) == pytest.approx(0.2 + np.array([-0.2, 0.2]) * 1.09561, abs=1e-5)
