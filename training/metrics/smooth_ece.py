"""Smooth ECE, a calibration error without bins.

Błasiok and Nakkiran, "Smooth ECE: principled reliability diagrams via kernel smoothing", ICLR 2024. With residuals
r_i = right_i - confidence_i,

    smECE_sigma = integral over t in [0, 1] of | mean_i r_i K_sigma(t, confidence_i) |,

where K is a Gaussian reflected at 0 and 1, and smECE is the fixed point smECE_sigma = sigma.

A Gaussian reflected at both ends is the heat kernel of [0, 1]: it multiplies the k-th cosine by
exp(-(pi k sigma)^2 / 2). So one cosine transform of the residuals, moved to the centres of 1024 cells, serves every
sigma. smECE_sigma does not increase with sigma, so smECE_sigma - sigma has one zero, which is found by false position
with the Illinois rule (Dowell and Jarratt, BIT 1971).
"""

from dataclasses import dataclass

import numpy as np
from scipy.fft import dct, idct

from frostbench.training.metrics.bins import Bools, Floats, Ints, checked_weights, sums_by

CELLS = 1024
"""Number of cells of [0, 1]; a row moves by at most half a cell, far less than any relevant sigma."""
TOLERANCE = 1e-5
MOST_STEPS = 100


def smooth_ece(confidences: Floats, right: Bools, weights: Floats | None = None) -> Floats:
    """Compute the smooth ECE [B] of confidences [N] and correctness [N] for weights [N, B].

    Raises:
        ValueError: there are no rows.
    """
    weights = checked_weights(len(confidences), weights)
    residuals = sums_by(cell_of(confidences), CELLS, weights * (right - confidences)[:, None])
    return smooth_ece_of(residuals, weights.sum(0))


def cell_of(confidences: Floats) -> Ints:
    """Return the cell index [N] of each confidence."""
    return np.minimum((confidences * CELLS).astype(np.int64), CELLS - 1)


def smooth_ece_of(residuals: Floats, total: Floats) -> Floats:
    """Compute the smooth ECE [B] from the residuals summed by cell [cells, B] and the total weights [B] of the rows.

    The fixed point lies between the absolute mean residual (smECE for infinite sigma) and smECE_0, and is found to
    within 1e-5.
    """
    waves = dct(residuals / total, axis=0, type=2, norm="ortho").astype(np.float32)
    low, high = np.abs(residuals.sum(0) / total), smoothed(waves, np.zeros(waves.shape[1]))
    bracket = _Bracket(low, high, smoothed(waves, low) - low, smoothed(waves, high) - high)
    for _ in range(MOST_STEPS):
        unsolved = np.flatnonzero(bracket.is_open)
        if len(unsolved) == 0:
            break
        middle = bracket.middle[unsolved]
        bracket.narrow(unsolved, middle, smoothed(waves[:, unsolved], middle) - middle)
    return bracket.middle


@dataclass
class _Bracket:
    """Brackets [B] of zeros of decreasing functions, and the values at their ends, which the Illinois rule halves."""

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
        """Zero [B] of the line between both ends, or an end if the line does not fall."""
        fall = np.where(self.over > self.under, self.over - self.under, 1.0)
        return self.low + (self.high - self.low) * np.clip(self.over / fall, 0, 1)

    def narrow(self, at: Ints, middle: Floats, value: Floats) -> None:
        """Replace one end by the middle; the value of an end that stays twice in a row is halved."""
        rises = value > 0
        up, down = at[rises], at[~rises]
        self.low[up], self.over[up] = middle[rises], value[rises]
        self.under[up] = np.where(self.rose[up], self.under[up] / 2, self.under[up])
        self.high[down], self.under[down] = middle[~rises], value[~rises]
        self.over[down] = np.where(self.fell[down], self.over[down] / 2, self.over[down])
        self.rose[at], self.fell[at] = rises, ~rises
        self.is_open[at] = (np.abs(value) > TOLERANCE) & (self.high[at] - self.low[at] > TOLERANCE)


def smoothed(waves: Floats, sigma: Floats) -> Floats:
    """Compute smECE_sigma [B] from the cosine coefficients [cells, B] of the residuals and sigma [B]."""
    damping = np.exp(-((np.pi * np.arange(len(waves))[:, None] * sigma) ** 2) / 2).astype(waves.dtype)
    return np.asarray(np.abs(idct(waves * damping, axis=0, type=2, norm="ortho")).sum(0, dtype=np.float64))
