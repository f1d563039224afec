"""Estimates of the data that would settle an undecided difference: more groups, more seeds or both."""

import math

import numpy as np

from frostbench.benchmarks.comparison.significance import Differences, Uncertainty

MOST_GROUPS, MOST_SEEDS = 20, 50
"""Limits of the estimates: more than this factor of groups, or number of seeds, is not worthwhile for one
difference."""
LEAST = 0.5
"""A difference below half its standard error is practically 0, so no estimate is given."""
NO_ESTIMATE = {"more_groups": math.nan, "more_seeds": math.nan}
"""Value for a difference that has a verdict, or that no reasonable effort would settle."""
FACTORS = (1.25, 1.5, 2.0, 2.5, *map(float, range(3, MOST_GROUPS + 1)))
"""Factors of the number of groups to try."""


def settling_data(
    differences: Differences, index: int, seeds: int, level: float, least_factor: float = 1.0
) -> dict[str, float]:
    """Estimate the factor of groups, or the number of seeds, that would give a verdict.

    The estimate assumes that the true difference equals the observed one; if it is smaller, more data is needed. The
    larger part of the uncertainty is reduced first, then the other, then both together.

    Args:
        differences: differences of all rows with their uncertainty.
        index: index of the difference.
        seeds: current number of seeds, S.
        level: level that p must fall below, including Holm's correction.
        least_factor: smallest factor of groups that allows a verdict, however small p is.

    Returns:
        `more_groups`, a factor, and `more_seeds`, the total number; NaN for what need not change.
    """
    delta, uncertainty = abs(float(differences.deltas[index])), differences.uncertainty(index)
    if not delta >= LEAST * math.sqrt(float(uncertainty.variance)) > 0:
        return dict(NO_ESTIMATE)
    level_share = float(differences.level_share(index))
    seed_counts = range(seeds + 1, MOST_SEEDS + 1) if seeds > 1 and float(uncertainty.seeds) > 0 else ()
    factors = [factor for factor in FACTORS if factor >= least_factor]

    def is_enough(factor: float, count: int) -> bool:
        return float(enlarged(uncertainty, factor, seeds, count).half_width(level * level_share)) < delta

    by_groups = next(({"more_groups": f, "more_seeds": math.nan} for f in factors if is_enough(f, seeds)), None)
    more_seeds_only = seed_counts if least_factor <= 1 else ()
    by_seeds = next(
        ({"more_groups": math.nan, "more_seeds": float(n)} for n in more_seeds_only if is_enough(1.0, n)), None
    )
    first_choices = (by_groups, by_seeds) if uncertainty.rows >= uncertainty.seeds else (by_seeds, by_groups)
    pairs = ((f, round(f * seeds)) for f in factors if len(seed_counts) and round(f * seeds) <= MOST_SEEDS)
    by_both = next(({"more_groups": f, "more_seeds": float(n)} for f, n in pairs if is_enough(f, n)), None)
    return first_choices[0] or first_choices[1] or by_both or dict(NO_ESTIMATE)


def enlarged(uncertainty: Uncertainty, factor: float, seeds: int, count: int) -> Uncertainty:
    """Return the uncertainty for `factor` times the groups and `count` seeds."""
    own = np.maximum(0.0, uncertainty.seeds - uncertainty.shared) + uncertainty.shared / factor
    grown = (count - 1) / (seeds - 1) if seeds > 1 else 1.0
    return Uncertainty(
        rows=uncertainty.rows / factor,
        seeds=own * seeds / count,
        rows_freedom=uncertainty.rows_freedom * factor,
        seeds_freedom=uncertainty.seeds_freedom * grown,
        shared=uncertainty.shared / factor * seeds / count,
    )


def words_of(more_groups: float, more_seeds: float, has_groups: bool = True) -> str:
    """Describe the data that would settle a difference; empty if there is no estimate.

    >>> words_of(3.0, math.nan), words_of(math.nan, 9.0, False)
    ('about 3 times as many groups', 'about 9 seeds')
    >>> words_of(1.5, 8.0, False), words_of(math.nan, math.nan)
    ('about 1.5 times as many rows and 8 seeds', '')
    """
    noun = "groups" if has_groups else "rows"
    parts = [] if math.isnan(more_groups) else [f"{more_groups:g} times as many {noun}"]
    parts += [] if math.isnan(more_seeds) else [f"{more_seeds:.0f} seeds"]
    return f"about {' and '.join(parts)}" if parts else ""
