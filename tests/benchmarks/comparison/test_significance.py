"""Intervals and p values of differences, checked against reference tests and hand calculations."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import ttest_ind, ttest_rel

from frostbench.benchmarks.comparison.significance import (
    LEVEL,
    PAIRED_SHARE,
    UNPAIRED_SHARE,
    Differences,
    SeedVariance,
    Uncertainty,
    holm,
    interval,
)
from frostbench.benchmarks.comparison.spread import Moments, Spread


def side(variance, shared, freedom):
    return SeedVariance(np.array([variance]), np.array([shared]), freedom)


def test_holm_is_monotone_and_at_most_one():
    assert holm([0.5, 0.9, 0.01]) == pytest.approx([1.0, 1.0, 0.03])
    assert holm([]) == []
    assert holm([0.03, math.nan, 0.02]) == pytest.approx([0.04, math.nan, 0.04], nan_ok=True)


def test_without_seeds_the_p_is_that_of_a_t_test_over_groups():
    """All 256 resamples of four groups give (n - 1) / n of the variance; n / (n - 1) makes up for it."""
    a, b = np.array([0.1, 0.4, 0.3, 0.8]), np.array([0.3, 0.7, 0.4, 1.1])
    means = [np.mean((b - a)[list(drawn)]) for drawn in itertools.product(range(4), repeat=4)]
    uncertainty = Uncertainty.of(np.array([np.var(means) * 4 / 3]), 3, [side(0.0, 0.0, 0), side(0.0, 0.0, 0)])
    assert uncertainty.p(np.array([np.mean(b - a)]))[0] == pytest.approx(ttest_rel(b, a).pvalue, abs=1e-9)


def test_without_groups_the_p_is_that_of_welch():
    a, b = np.array([0.1, 0.15, 0.3, 0.2]), np.array([0.35, 0.6, 0.5, 0.3])
    none = np.zeros(1)
    sides = [SeedVariance.of(values[None], none, none) for values in (a, b)]
    found = Uncertainty.of(none, 50, sides).p(np.array([b.mean() - a.mean()]))
    assert found[0] == pytest.approx(ttest_ind(b, a, equal_var=False).pvalue, abs=1e-9)


def test_of_both_the_quantiles_are_weighted():
    """Quantiles of t at .975 with 19 and 4 degrees of freedom: 2.093024 and 2.776445."""
    uncertainty = Uncertainty.of(np.array([0.0004]), 19, [side(0.0009, 0.0, 4)])
    wanted = math.sqrt(0.0013) * (0.0004 * 2.093024 + 0.0009 * 2.776445) / 0.0013
    assert uncertainty.half_width(0.05)[0] == pytest.approx(wanted, abs=1e-6)
    assert uncertainty.p(np.array([wanted]))[0] == pytest.approx(0.05, abs=1e-5)


def test_variance_shared_by_groups_and_seeds_counts_once():
    """Seeds that differ by image alone: V_int is s² / S, and the whole is the bootstrap's V_g."""
    both = [side(0.0003, 0.0003, 4), side(0.0002, 0.0002, 4)]
    uncertainty = Uncertainty.of(np.array([0.0009]), 99, both)
    assert uncertainty.variance[0] == pytest.approx(0.0009)
    assert (uncertainty.rows[0], uncertainty.seeds[0]) == pytest.approx((0.0004, 0.0005))
    agreeing = Uncertainty.of(np.array([0.0009]), 99, [side(0.0001, 0.0003, 4), side(0.0002, 0.0002, 4)])
    assert (agreeing.variance[0], agreeing.seeds[0]) == pytest.approx((0.0009, 0.0003))
    assert uncertainty.seeds_freedom[0] == pytest.approx(0.0005**2 / ((0.0003**2 + 0.0002**2) / 4))


def test_seeds_that_happen_to_agree_count_no_less_than_the_bootstrap_says():
    assert side(0.00001, 0.0003, 2).combined[0] == 0.0003
    assert side(0.0005, 0.0003, 2).combined[0] == 0.0005
    assert side(0.0, 0.0003, 2).combined[0] == 0.0


def test_the_shared_part_follows_from_single_runs_and_their_mean():
    """Runs that move by 4 with two thirds of their own: their mean of 3 moves by 4/3 + 8/9 = 20/9."""
    found = SeedVariance.of(np.array([[1.0, 2.0, 3.0]]), np.array([4.0]), np.array([20 / 9]))
    assert found.shared[0] == pytest.approx(8 / 3 / 3)
    assert found.variance[0] == pytest.approx(1 / 3)
    assert found.freedom == 2


class TestDifferences:
    def differences_of(self, a, b, groups=0.0):
        a, b, none = np.array([a]), np.array([b]), np.zeros(1)
        sides = (SeedVariance.of(a, none, none), SeedVariance.of(b, none, none))
        return Differences.of((b - a).mean(-1), np.array([groups]), 40, sides, SeedVariance.of(b - a, none, none))

    def test_rows_of_their_own_are_tried_at_four_fifths_of_the_level(self):
        a, b = [0.1, 0.15, 0.3, 0.2], [0.6, 0.4, 0.35, 0.5]
        wanted = ttest_ind(b, a, equal_var=False).pvalue / UNPAIRED_SHARE
        assert self.differences_of(a, b).p[0] == pytest.approx(wanted, abs=1e-9)

    def test_rows_whose_seeds_move_together_are_paired(self):
        a, b = [0.1, 0.4, 0.2, 0.3], [0.121, 0.42, 0.2205, 0.319]
        assert self.differences_of(a, b).p[0] == pytest.approx(ttest_rel(b, a).pvalue / PAIRED_SHARE, abs=1e-8)
        assert ttest_ind(b, a, equal_var=False).pvalue > 0.8

    def test_a_row_that_does_not_depend_on_its_seed_has_the_whole_level(self):
        a, b = [0.2, 0.2, 0.2], [0.25, 0.3, 0.2]
        assert not self.differences_of(a, b).use_both[0]
        assert self.differences_of(a, b).p[0] == pytest.approx(ttest_rel(b, a).pvalue, abs=1e-9)

    @pytest.mark.parametrize("b", [[0.5, 0.62, 0.58], [0.4, 0.7, 0.5], [0.3, 0.41, 0.5], [0.12, 0.42, 0.22]])
    @pytest.mark.parametrize("groups", [0.0, 0.0004, 0.01])
    def test_the_interval_excludes_zero_if_p_is_below_the_level(self, b, groups):
        found = self.differences_of([0.1, 0.4, 0.2], b, groups)
        assert bool(found.half_width()[0] < abs(found.deltas[0])) == bool(found.p[0] < LEVEL)

    def test_equal_values_have_no_difference(self):
        found = self.differences_of([0.1, 0.4, 0.2], [0.1, 0.4, 0.2])
        assert (found.p[0], found.half_width()[0]) == (1, 0)

    def test_nan_has_no_p(self):
        found = self.differences_of([0.1, 0.4, 0.2], [0.1, math.nan, 0.2])
        assert math.isnan(found.p[0])
        assert math.isnan(found.half_width()[0])


class TestSpread:
    def test_variances_are_those_of_numpy(self):
        moved = np.random.default_rng(0).normal(size=(3, 4, 50))
        found = Spread.of(moved)
        assert found.run[2] == pytest.approx(np.mean([np.var(run, ddof=1) for run in moved[2]]))
        assert found.mean[1] == pytest.approx(np.var(moved[1].mean(0), ddof=1))
        assert found.run_delta[1] == pytest.approx(
            np.mean([np.var(moved[1, s] - moved[0, s], ddof=1) for s in range(4)])
        )
        assert found.mean_delta[2] == pytest.approx(np.var(moved[2].mean(0) - moved[0].mean(0), ddof=1))
        assert found.mean_delta[0] == found.run_delta[0] == 0

    def test_pieces_give_the_variance_of_the_whole(self):
        whole = 1e6 + np.random.default_rng(1).normal(size=(5, 90))
        gathered = Moments()
        for start, end in ((0, 1), (1, 40), (40, 90)):
            gathered.add(whole[:, start:end])
        assert gathered.variance == pytest.approx(whole.var(1, ddof=1), rel=1e-9)


def test_the_percentile_interval():
    assert interval(np.linspace(0, 1, 1001)) == pytest.approx((0.025, 0.975))
