"""How often made-up tables get a verdict, by today's rule and by others."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from frostbench.benchmarks.comparison.bootstrap import HIGHER_IS_BETTER, Floats
from frostbench.benchmarks.comparison.groups import Groups
from frostbench.benchmarks.comparison.resampled import resample
from frostbench.benchmarks.comparison.significance import LEVEL, Doubt, Judgement, holm
from frostbench.benchmarks.results.nulls import Regime, draw
from frostbench.benchmarks.results.old_rule import old_p, satterthwaite_p

RESAMPLES = 300
"""Of each made-up table: a variance is off by 8 %, which hardly moves a level."""
RULES = ("new", "old", "satterthwaite")


@dataclass(frozen=True)
class Found:
    """What T tables of a regime gave.

    Attributes:
        regime: how outcomes came about.
        tables: T.
        shares: rule to metric to the share of tables with a verdict for any row.
        rows: rule to metric to the share of rows with a verdict.
        gains: metric to the mean difference from the base.
    """

    regime: Regime
    tables: int
    shares: dict[str, dict[str, float]]
    rows: dict[str, dict[str, float]]
    gains: dict[str, float]


@dataclass(frozen=True)
class _Line:
    """A metric of one table: what the rules need of its R rows, the base left out."""

    judgement: Judgement
    moved: Floats
    by_seed: Floats


def found_of(regime: Regime, tables: int, seed: int) -> Found:
    """Draw tables of a regime and judge them by every rule.

    Where the base is noisier than the rows, a metric that bends has a true difference: the mean over the tables. The
    question is then how often the tables differ from that.

    Args:
        regime: how outcomes come about.
        tables: T.
        seed: of all random numbers.
    """
    rng = np.random.default_rng(seed)
    parts = [_lines(regime, rng) for _ in range(tables)]
    shares: dict[str, dict[str, float]] = {rule: {} for rule in RULES}
    rows: dict[str, dict[str, float]] = {rule: {} for rule in RULES}
    gains = {}
    for name in HIGHER_IS_BETTER:
        lines = [part[name] for part in parts if name in part]
        if len(lines) < tables:
            continue
        judged = _stacked([line.judgement for line in lines])
        gains[name] = float(judged.deltas.mean())
        truth = judged.deltas.mean(0) if regime.gain == 0 and regime.noisier_base != 1 else np.zeros(regime.rows)
        moved = Judgement(judged.deltas - truth, judged.alone, judged.paired, judged.two_ways)
        old = [[old_p(*own, regime.groups) for own in _off(line, truth)] for line in lines]
        each = {"new": moved.p, "old": old, "satterthwaite": satterthwaite_p(moved.deltas, judged.alone)}
        for rule, p_values in each.items():
            told = np.array([holm(p.tolist()) for p in np.asarray(p_values)]) < LEVEL
            shares[rule][name], rows[rule][name] = float(told.any(1).mean()), float(told.mean())
    return Found(regime, tables, shares, rows, gains)


def _off(line: _Line, truth: Floats) -> list[tuple[Floats, Floats]]:
    """The differences of each row on the resamples and by seed, from the truth."""
    return [(moved - true, own - true) for moved, own, true in zip(line.moved, line.by_seed, truth, strict=True)]


def _lines(regime: Regime, rng: np.random.Generator) -> dict[str, _Line]:
    """Every metric of one table; all tables share the resamples, as those of the same images do."""
    paired = draw(regime, rng)
    drawn = resample(paired, RESAMPLES, 0)
    return {
        name: _Line(
            drawn.spreads[name].judged(values, Groups.of(paired.frame, name)).without_base(),
            drawn.moved[name][1:] - drawn.moved[name][0],
            values[1:] - values[0],
        )
        for name, values in drawn.values.items()
    }


def _stacked(judgements: Sequence[Judgement]) -> Judgement:
    """The judgements of several tables as one, [T, R]."""

    def doubts(each: Sequence[Doubt]) -> Doubt:
        return Doubt(*(np.stack([vars(one)[name] for one in each]) for name in vars(each[0])))

    return Judgement(
        np.stack([one.deltas for one in judgements]),
        doubts([one.alone for one in judgements]),
        doubts([one.paired for one in judgements]),
        np.stack([one.two_ways for one in judgements]),
    )


def interval_of(share: float, tables: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of so many tables.

    Wilson, "Probable inference, the law of succession, and statistical inference", JASA 1927.

    >>> [round(end, 4) for end in interval_of(0.05, 1000)]
    [0.0381, 0.0653]
    """
    z = 1.959964
    middle = (share + z**2 / (2 * tables)) / (1 + z**2 / tables)
    half = z / (1 + z**2 / tables) * float(np.sqrt(share * (1 - share) / tables + z**2 / (4 * tables**2)))
    return middle - half, middle + half
