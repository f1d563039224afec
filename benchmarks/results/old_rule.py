"""Earlier and alternative rules for verdicts, compared with today's in docs/results/verdicts.md."""

import math

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from frostbench.benchmarks.comparison.frame import Floats
from frostbench.benchmarks.comparison.significance import Uncertainty


def old_p(replicates: Floats, by_seed: Floats, n_groups: int) -> float:
    """Return p by the rule used until 2026-11-28: the larger of p over groups and p over groups and seeds.

    The latter uses a t distribution with S - 1 degrees of freedom for the differences seed by seed. Part of their
    variance is due to the images, and the bootstrap has already counted it.

    Args:
        replicates: [B] differences on the resamples, means over seeds.
        by_seed: [S] differences by seed.
        n_groups: number of groups, G.
    """
    point = float(by_seed.mean())
    ratio = float(stdtrit(n_groups - 1, 0.975) / ndtri(0.975))
    wide = point + (replicates - point) * math.sqrt(n_groups / (n_groups - 1)) * ratio
    groups = min(float((wide <= 0).mean()), float((wide >= 0).mean()))
    spread = float(by_seed.std(ddof=1)) / math.sqrt(len(by_seed)) if len(by_seed) > 1 else 0.0
    both = groups
    if spread > 0:
        both = min(float(stdtr(len(by_seed) - 1, side * wide / spread).mean()) for side in (-1, 1))
    return float(np.clip(2 * max(groups, both), 1 / len(replicates), 1.0))


def satterthwaite_p(deltas: Floats, uncertainty: Uncertainty) -> Floats:
    """Return p from a t distribution with Satterthwaite's degrees of freedom, instead of the weighted quantile.

    Args:
        deltas: [...] differences.
        uncertainty: their uncertainty.
    """
    groups, variance = uncertainty.rows + uncertainty.shared, np.maximum(uncertainty.variance, np.finfo(float).tiny)
    parts = groups**2 / uncertainty.rows_freedom + uncertainty.seeds**2 / uncertainty.seeds_freedom
    parts = np.maximum(parts, np.finfo(float).tiny)
    return np.asarray(2 * stdtr(variance**2 / parts, -np.abs(deltas) / np.sqrt(variance)))
