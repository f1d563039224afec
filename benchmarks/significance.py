"""From bootstrap differences to an interval and a p, and from the p of several rows to those of their family."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from benchmarks.bootstrap import Floats


def interval(deltas: Floats) -> tuple[float, float]:
    """The percentile 95 % interval of bootstrap differences [B]."""
    low, high = np.percentile(deltas, [2.5, 97.5])
    return float(low), float(high)


def grown(deltas: Floats, point: float, n_groups: int) -> Floats:
    """Bootstrap differences [B] around their point, wider by what a bootstrap of G groups is too narrow.

    The factor is that of a mean: sqrt(G / (G - 1)) times the ratio of the t to the normal quantile. Hesterberg,
    "What teachers should know about the bootstrap", The American Statistician 2015.
    """
    if n_groups < 2:
        return deltas
    ratio = float(stdtrit(n_groups - 1, 0.975) / ndtri(0.975))
    return point + (deltas - point) * math.sqrt(n_groups / (n_groups - 1)) * ratio


def p_value(deltas: Floats, seed_deltas: Floats | None = None) -> float:
    """Two-sided p of bootstrap differences [B]: twice the smaller tail beyond 0, at least 1/B and at most 1.

    A resample of the groups holds the trained heads fixed. With many rows it pins down the difference of these very
    heads, and two equal methods that drew other random numbers would differ "significantly". So, where the difference
    for each seed is given, the mean over S seeds gets the doubt that it has: sd / sqrt(S) times a t with S - 1 degrees
    of freedom. The tail is that of the sum of both, averaged over the resamples exactly rather than by draws.

    Args:
        deltas: [B] differences, averaged over seeds.
        seed_deltas: [S] the difference for each seed; the spread of one seed is unknown and adds nothing.

    Returns:
        The p, NaN where a difference is not finite.
    """
    seeds = np.zeros(1) if seed_deltas is None else seed_deltas
    if not (np.isfinite(deltas).all() and np.isfinite(seeds).all()):
        return math.nan
    spread = float(seeds.std(ddof=1)) / math.sqrt(len(seeds)) if len(seeds) > 1 else 0.0
    if spread > 0:
        below, above = (float(stdtr(len(seeds) - 1, side * deltas / spread).mean()) for side in (-1, 1))
    else:
        below, above = float((deltas <= 0).mean()), float((deltas >= 0).mean())
    return min(1.0, max(1 / len(deltas), 2 * min(below, above)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment of p values for a family of comparisons; NaN is no comparison and stays NaN.

    Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 1979.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03, 0.005])]
    [0.03, 0.06, 0.06, 0.02]
    """
    made = [place for place, p in enumerate(p_values) if not math.isnan(p)]
    adjusted, highest = [math.nan] * len(p_values), 0.0
    for rank, place in enumerate(sorted(made, key=lambda place: p_values[place])):
        highest = max(highest, min(1.0, (len(made) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted
