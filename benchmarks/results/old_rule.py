"""Rules of verdicts that were tried or in use before, to set beside today's in docs/results/verdicts.md."""

import math

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from frostbench.benchmarks.comparison.bootstrap import Floats
from frostbench.benchmarks.comparison.significance import Doubt


def old_p(moved: Floats, by_seed: Floats, n_groups: int) -> float:
    """The rule up to 2026-11-28: the larger of the p over groups and that over groups and seeds.

    The latter is a t with S - 1 degrees of freedom from the differences seed by seed. These hold the rows' part of the
    seeds, which the bootstrap has counted already.

    Args:
        moved: [B] differences on the resamples, means over seeds.
        by_seed: [S] the difference of each seed.
        n_groups: G.
    """
    point = float(by_seed.mean())
    ratio = float(stdtrit(n_groups - 1, 0.975) / ndtri(0.975))
    wide = point + (moved - point) * math.sqrt(n_groups / (n_groups - 1)) * ratio
    groups = min(float((wide <= 0).mean()), float((wide >= 0).mean()))
    spread = float(by_seed.std(ddof=1)) / math.sqrt(len(by_seed)) if len(by_seed) > 1 else 0.0
    both = groups
    if spread > 0:
        both = min(float(stdtr(len(by_seed) - 1, side * wide / spread).mean()) for side in (-1, 1))
    return float(np.clip(2 * max(groups, both), 1 / len(moved), 1.0))


def satterthwaite_p(deltas: Floats, doubt: Doubt) -> Floats:
    """A t with Satterthwaite's degrees of freedom for the sum of both parts, in the place of the weighted quantile.

    Args:
        deltas: [...] differences.
        doubt: about them.
    """
    groups, whole = doubt.rows + doubt.shared, np.maximum(doubt.variance, np.finfo(float).tiny)
    parts = groups**2 / doubt.rows_freedom + doubt.seeds**2 / doubt.seeds_freedom
    parts = np.maximum(parts, np.finfo(float).tiny)
    return np.asarray(2 * stdtr(whole**2 / parts, -np.abs(deltas) / np.sqrt(whole)))
