"""Smooth ECE: a calibration error without bins.

Błasiok and Nakkiran, "Smooth ECE: principled reliability diagrams via kernel smoothing", ICLR 2024. With residuals
r_i = right_i - confidence_i,

    smECE_sigma = integral over t in [0, 1] of | mean_i r_i K_sigma(t, confidence_i) |,

where K is a Gaussian that is reflected at 0 and 1, and smECE is the value at which it equals its own sigma.

A Gaussian that is reflected at both ends is the heat kernel of [0, 1]: it multiplies the k-th cosine by
exp(-(pi k sigma)^2 / 2). So one cosine transform of the residuals, which are put into the middle of the nearest of 1024
cells, serves every sigma. smECE_sigma never grows with sigma, so smECE_sigma - sigma has one zero; it is found by
false position with the Illinois rule (Dowell and Jarratt, BIT 1971).
"""

from dataclasses import dataclass

import numpy as np
from scipy.fft import dct, idct

from frostbench.training.metrics.bins import Bools, Floats, Ints, one_each, sums_by

CELLS = 1024
"""Cells of [0, 1]; a row is moved by half of one at most, far less than any sigma that matters."""
TOLERANCE = 1e-5
MOST_STEPS = 100


def smooth_ece(confidences: Floats, right: Bools, weights: Floats | None = None) -> Floats:
    """Smooth ECE [B] of confidences [N] and whether each prediction was right [N], under weights [N, B].

    Raises:
        ValueError: there are no rows.
    """
    each = one_each(len(confidences), weights)
    return smooth_ece_of(sums_by(cell_of(confidences), CELLS, each * (right - confidences)[:, None]), each.sum(0))


def cell_of(confidences: Floats) -> Ints:
    """Number of the cell [N] that holds each confidence."""
    return np.minimum((confidences * CELLS).astype(np.int64), CELLS - 1)


def smooth_ece_of(residuals: Floats, total: Floats) -> Floats:
    """Smooth ECE [B] from sums of residuals by cell [cells, B], of rows with these total weights [B].

    The zero lies between the mean residual's size, which is smECE of an endless sigma, and smECE_0, and is known
    to 1e-5.
    """
    waves = dct(residuals / total, axis=0, type=2, norm="ortho").astype(np.float32)
    low, high = np.abs(residuals.sum(0) / total), smoothed(waves, np.zeros(waves.shape[1]))
    bracket = _Bracket(low, high, smoothed(waves, low) - low, smoothed(waves, high) - high)
    for _ in range(MOST_STEPS):
        todo = np.flatnonzero(bracket.is_open)
        if len(todo) == 0:
            break
        middle = bracket.middle[todo]
        bracket.narrow(todo, middle, smoothed(waves[:, todo], middle) - middle)
    return bracket.middle


@dataclass
class _Bracket:
    """Ends [B] around zeros of falling functions, and their values there, which the Illinois rule may halve."""

    low: Floats
    high: Floats
    over: Floats
    under: Floats

    def __post_init__(self) -> None:
        self.rose = np.zeros(len(self.low), dtype=bool)
        self.fell = np.zeros(len(self.low), dtype=bool)
        self.is_open = (self.high - self.low > TOLERANCE) & (self.over > TOLERANCE) & (self.under < -TOLERANCE)

    @property
    def middle(self) -> Floats:
        """[B] where the straight line between both ends is 0, and an end where it is no falling line."""
        fall = np.where(self.over > self.under, self.over - self.under, 1.0)
        return self.low + (self.high - self.low) * np.clip(self.over / fall, 0, 1)

    def narrow(self, at: Ints, middle: Floats, value: Floats) -> None:
        """Put the middle in the place of one end; an end that stays for the second time has its value halved."""
        rises = value > 0
        up, down = at[rises], at[~rises]
        self.low[up], self.over[up] = middle[rises], value[rises]
        self.under[up] = np.where(self.rose[up], self.under[up] / 2, self.under[up])
        self.high[down], self.under[down] = middle[~rises], value[~rises]
        self.over[down] = np.where(self.fell[down], self.over[down] / 2, self.over[down])
        self.rose[at], self.fell[at] = rises, ~rises
        self.is_open[at] = (np.abs(value) > TOLERANCE) & (self.high[at] - self.low[at] > TOLERANCE)


def smoothed(waves: Floats, sigma: Floats) -> Floats:
    """smECE_sigma [B] from cosine coefficients [cells, B] of the residuals and a sigma [B] for each."""
    damping = np.exp(-((np.pi * np.arange(len(waves))[:, None] * sigma) ** 2) / 2).astype(waves.dtype)
    return np.asarray(np.abs(idct(waves * damping, axis=0, type=2, norm="ortho")).sum(0, dtype=np.float64))
