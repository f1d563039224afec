import math

import numpy as np
import pytest
from scipy.stats import binom, poisson

from frostbench.benchmarks.comparison.draws import MANY_GROUPS, _Poisson, resamples


def drawn(n_groups, count, seed=0, step=100):
    return np.concatenate(list(resamples(n_groups, count, seed, step)), axis=1).astype(np.int64)


@pytest.mark.parametrize("n_groups", [50, MANY_GROUPS, MANY_GROUPS + 1])
def test_every_resample_holds_as_many_groups_as_there_are(n_groups):
    found = drawn(n_groups, 150, step=64)
    assert found.shape == (n_groups, 150)
    assert (found.sum(0) == n_groups).all()
    assert np.array_equal(found, drawn(n_groups, 150, step=64))
    assert not np.array_equal(found, drawn(n_groups, 150, seed=1, step=64))


def chi_square(found, chances):
    """Of the values 0 to 5 and of all above, given the chances of these seven."""
    observed = np.append([(found == value).sum() for value in range(6)], (found > 5).sum())
    expected = found.size * np.array(chances)
    return ((observed - expected) ** 2 / expected).sum()


BOUND = 6 + 4 * math.sqrt(2 * 6)
"""Four standard deviations above the mean of chi-square with six degrees of freedom."""


@pytest.mark.parametrize("n_groups", [50, MANY_GROUPS])
def test_a_group_comes_up_as_often_as_a_binomial_says(n_groups):
    law = binom(n_groups, 1 / n_groups)
    assert chi_square(drawn(n_groups, 2_000_000 // n_groups), [*law.pmf(range(6)), law.sf(5)]) < BOUND


@pytest.mark.parametrize("n_groups", [50, MANY_GROUPS])
def test_groups_compete_as_they_do_in_a_multinomial(n_groups):
    """The sum over half of the groups has variance G / 4; were the counts independent it would be G / 2."""
    half = drawn(n_groups, 1000)[: n_groups // 2].sum(0)
    assert half.mean() == pytest.approx(n_groups / 2, abs=4 * math.sqrt(n_groups / 4 / 1000))
    assert half.var() == pytest.approx(n_groups / 4, rel=4 * math.sqrt(2 / 1000))


@pytest.mark.parametrize("mean", [0.3, 0.95])
def test_the_table_gives_poisson_counts(mean):
    made = _Poisson.of(mean)
    law = poisson(mean)
    assert chi_square(made.draw(2_000_001, np.random.default_rng(2)), [*law.pmf(range(6)), law.sf(5)]) < BOUND
    assert 4 <= (made.table == 255).sum() <= 10


def test_a_sum_above_the_number_of_groups_is_drawn_anew(monkeypatch):
    """With a mean of 1 about half of the columns have too many, and the outcome is still one of G draws."""
    plain = _Poisson.of(1.0)
    monkeypatch.setattr(_Poisson, "of", classmethod(lambda cls, mean: plain))
    found = drawn(MANY_GROUPS, 100)
    assert (found.sum(0) == MANY_GROUPS).all()
    assert found.var() == pytest.approx(1, rel=0.02)
