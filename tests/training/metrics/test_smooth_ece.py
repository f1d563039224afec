"""The fixed point compared with brute force and with relplot.

relplot bisects ten times from 1, so its sigma is up to 2^-10 above the fixed point, and smECE_sigma is slightly smaller
there; it also integrates over only 200 points or more. Both errors stay below 1e-3 here.
"""

import numpy as np
import pytest
import relplot
from scipy.fft import dct
from scipy.optimize import brentq

from frostbench.training.metrics.smooth_ece import CELLS, cell_of, smooth_ece, smooth_ece_of, smoothed


def rows(count, exponent, seed=0):
    rng = np.random.default_rng(seed)
    sure = rng.beta(4, 1.5, count)
    return sure, rng.random(count) < sure**exponent


def by_quadrature(sure, right, mesh=4001):
    """Evaluate the definition with the reflected kernel written out: mirror images at -x, 2 - x, 2 + x …"""
    at = np.linspace(0, 1, mesh)[:, None]
    images = np.concatenate([2 * m + sign * sure for m in range(-4, 5) for sign in (1, -1)])
    residuals = np.tile(right - sure, 18)

    def above(sigma):
        kernel = np.exp(-(((at - images) / sigma) ** 2) / 2) / (np.sqrt(2 * np.pi) * sigma)
        return np.trapezoid(np.abs(kernel @ residuals), at[:, 0]) / len(sure) - sigma

    return brentq(above, 5e-3, 1.0, xtol=1e-6)


@pytest.mark.parametrize(("count", "exponent"), [(10, 1.0), (60, 0.5), (60, 1.0), (60, 2.5)])
def test_it_is_the_fixed_point_of_its_definition(count, exponent):
    sure, right = rows(count, exponent)
    assert smooth_ece(sure, right) == pytest.approx([by_quadrature(sure, right)], abs=2e-4)


@pytest.mark.parametrize(("count", "exponent"), [(10, 1.0), (60, 0.5), (300, 1.0), (2000, 1.0), (2000, 2.0)])
def test_relplot_agrees_to_its_own_precision(count, exponent):
    sure, right = rows(count, exponent)
    assert smooth_ece(sure, right) == pytest.approx([relplot.smECE(sure, right.astype(float))], abs=1e-3)


def test_where_all_gaps_have_one_sign_it_is_the_mean_gap():
    sure = np.array([0.55, 0.6, 0.7, 0.95])
    assert smooth_ece(sure, np.zeros(4, dtype=bool)) == pytest.approx([0.7], abs=1e-5)
    assert smooth_ece(np.full(50, 0.7), np.arange(50) < 25) == pytest.approx([0.2], abs=1e-5)
    assert smooth_ece(np.full(50, 0.7), np.arange(50) < 35) == pytest.approx([0.0], abs=1e-5)


def test_ends_of_the_scale_are_cells_too():
    assert cell_of(np.array([0.0, 1.0])).tolist() == [0, CELLS - 1]
    assert smooth_ece(np.array([0.0, 1.0]), np.array([False, True])) == pytest.approx([0.0], abs=1e-6)


def test_weights_are_copies_and_their_scale_does_not_matter():
    sure, right = rows(40, 0.7)
    weights = np.random.default_rng(1).integers(1, 4, (40, 1)).astype(float)
    copies = np.repeat(np.arange(40), weights[:, 0].astype(int))
    wanted = smooth_ece(sure[copies], right[copies])
    assert smooth_ece(sure, right, weights) == pytest.approx(wanted, abs=2e-5)
    assert smooth_ece(sure, right, 0.01 * weights) == pytest.approx(wanted, abs=2e-5)


def test_more_smoothing_never_increases_the_value():
    residuals = np.random.default_rng(0).normal(0, 1, (CELLS, 1))
    coefficients = dct(residuals / 100, axis=0, type=2, norm="ortho")
    found = [float(smoothed(coefficients, np.array([sigma]))[0]) for sigma in (0.0, 0.01, 0.05, 0.2, 1.0)]
    assert found == sorted(found, reverse=True)
    assert found[0] == pytest.approx(np.abs(residuals).sum() / 100)
    (fixed,) = smooth_ece_of(residuals, np.array([100.0]))
    assert float(smoothed(coefficients, np.array([fixed]))[0]) == pytest.approx(fixed, abs=1e-4)


def test_no_rows_are_refused():
    with pytest.raises(ValueError, match="need at least one row"):
        smooth_ece(np.zeros(0), np.zeros(0, dtype=bool))
