"""What would settle a difference that cannot be told: more groups, more seeds or both, were it as large as it looks."""

import math

import numpy as np

from frostbench.benchmarks.comparison.significance import Doubt, Judgement

MOST_GROUPS, MOST_SEEDS = 20, 50
"""Nobody collects more than so many times as many groups, or trains more seeds, for one difference."""
LEAST = 0.5
"""A difference below half its standard error is about 0: nothing is said of what would settle it."""
NOTHING = {"more_groups": math.nan, "more_seeds": math.nan}
"""Of a difference with a verdict, and of one that no reasonable effort would settle."""
FACTORS = (1.25, 1.5, 2.0, 2.5, *map(float, range(3, MOST_GROUPS + 1)))
"""Factors of groups that are tried."""


def settled(judged: Judgement, place: int, seeds: int, level: float, least: float = 1.0) -> dict[str, float]:
    """About how many times as many groups, or how many seeds, would give a verdict.

    The larger part of the doubt is tried first, then the other, then both together. The true difference may be
    smaller than the one observed; then more is needed.

    Args:
        judged: the differences.
        place: of the one that is asked for.
        seeds: that there are, S.
        level: that p must fall below, with Holm's correction.
        least: times as many groups without which there is no verdict, however small p is.

    Returns:
        `more_groups`, a factor, and `more_seeds`, a number; NaN for what need not change.
    """
    delta, doubt = abs(float(judged.deltas[place])), judged.narrower(place)
    if not delta >= LEAST * math.sqrt(float(doubt.variance)) > 0:
        return dict(NOTHING)
    share = float(judged.share_of(place))
    counts = range(seeds + 1, MOST_SEEDS + 1) if seeds > 1 and float(doubt.seeds) > 0 else ()
    factors = [factor for factor in FACTORS if factor >= least]

    def tells(factor: float, count: int) -> bool:
        return float(enlarged(doubt, factor, seeds, count).half_width(level * share)) < delta

    by_groups = next(({"more_groups": f, "more_seeds": math.nan} for f in factors if tells(f, seeds)), None)
    alone = counts if least <= 1 else ()
    by_seeds = next(({"more_groups": math.nan, "more_seeds": float(n)} for n in alone if tells(1.0, n)), None)
    either = (by_groups, by_seeds) if doubt.rows >= doubt.seeds else (by_seeds, by_groups)
    both = ((f, round(f * seeds)) for f in factors if len(counts) and round(f * seeds) <= MOST_SEEDS)
    together = next(({"more_groups": f, "more_seeds": float(n)} for f, n in both if tells(f, n)), None)
    return either[0] or either[1] or together or dict(NOTHING)


def enlarged(doubt: Doubt, factor: float, seeds: int, count: int) -> Doubt:
    """The doubt with so many times the groups, and with another number of seeds."""
    own = max(0.0, float(doubt.seeds) - float(doubt.shared)) + float(doubt.shared) / factor
    grown = (count - 1) / (seeds - 1) if seeds > 1 else 1.0
    return Doubt(
        *map(
            np.asarray,
            (
                float(doubt.rows) / factor,
                own * seeds / count,
                float(doubt.rows_freedom) * factor,
                float(doubt.seeds_freedom) * grown,
                float(doubt.shared) / factor * seeds / count,
            ),
        )
    )


def words_of(more_groups: float, more_seeds: float, has_groups: bool = True) -> str:
    """What would settle a difference; empty where nothing is known to.

    >>> words_of(3.0, math.nan), words_of(math.nan, 9.0, False)
    ('about 3 times as many groups', 'about 9 seeds')
    >>> words_of(1.5, 8.0, False), words_of(math.nan, math.nan)
    ('about 1.5 times as many rows and 8 seeds', '')
    """
    noun = "groups" if has_groups else "rows"
    parts = [] if math.isnan(more_groups) else [f"{more_groups:g} times as many {noun}"]
    parts += [] if math.isnan(more_seeds) else [f"{more_seeds:.0f} seeds"]
    return f"about {' and '.join(parts)}" if parts else ""
