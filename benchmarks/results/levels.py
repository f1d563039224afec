"""Simulate how often tables get a verdict, by today's rule and by earlier ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from frostbench.benchmarks.comparison.frame import Floats
from frostbench.benchmarks.comparison.groups import VarianceCorrection
from frostbench.benchmarks.comparison.metrics import HIGHER_IS_BETTER
from frostbench.benchmarks.comparison.resampled import resample
from frostbench.benchmarks.comparison.significance import LEVEL, Differences, Uncertainty, holm
from frostbench.benchmarks.results.nulls import Regime, draw
from frostbench.benchmarks.results.old_rule import old_p, satterthwaite_p

RESAMPLES = 300
"""Resamples per simulated table; the standard error of a variance is 8 %, which hardly affects the level."""
RULES = ("new", "old", "satterthwaite")


@dataclass(frozen=True)
class RegimeResult:
    """Result of T simulated tables of a regime.

    Attributes:
        regime: parameters of the simulation.
        tables: number of tables, T.
        shares: rule to metric to the share of tables with a verdict on any row.
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
    """One metric of one table: the input of the rules for its R rows, without the base."""

    differences: Differences
    replicates: Floats
    by_seed: Floats


def simulate(regime: Regime, tables: int, seed: int) -> RegimeResult:
    """Draw tables of a regime and apply every rule.

    If the base is noisier than the rows, a nonlinear metric has a true difference, the mean over the tables; the level
    is then the share of tables with a significant deviation from it.

    Args:
        regime: parameters of the simulation.
        tables: number of tables, T.
        seed: random seed.
    """
    rng = np.random.default_rng(seed)
    tables_lines = [_lines(regime, rng) for _ in range(tables)]
    shares: dict[str, dict[str, float]] = {rule: {} for rule in RULES}
    rows: dict[str, dict[str, float]] = {rule: {} for rule in RULES}
    gains = {}
    for name in HIGHER_IS_BETTER:
        lines = [part[name] for part in tables_lines if name in part]
        if len(lines) < tables:
            continue
        differences = _stacked([line.differences for line in lines])
        gains[name] = float(differences.deltas.mean())
        truth = differences.deltas.mean(0) if regime.gain == 0 and regime.noisier_base != 1 else np.zeros(regime.rows)
        replicates = Differences(
            differences.deltas - truth, differences.unpaired, differences.paired, differences.use_both
        )
        old = [[old_p(*seeds, regime.groups) for seeds in _off(line, truth)] for line in lines]
        by_rule = {
            "new": replicates.p,
            "old": old,
            "satterthwaite": satterthwaite_p(replicates.deltas, differences.unpaired),
        }
        for rule, p_values in by_rule.items():
            has_verdict = np.array([holm(p.tolist()) for p in np.asarray(p_values)]) < LEVEL
            shares[rule][name], rows[rule][name] = float(has_verdict.any(1).mean()), float(has_verdict.mean())
    return RegimeResult(regime, tables, shares, rows, gains)


def _off(line: _Line, truth: Floats) -> list[tuple[Floats, Floats]]:
    """Return the deviations of each row from the true difference, on the resamples and by seed."""
    return [
        (replicates - true, by_seed - true)
        for replicates, by_seed, true in zip(line.replicates, line.by_seed, truth, strict=True)
    ]


def _lines(regime: Regime, rng: np.random.Generator) -> dict[str, _Line]:
    """Return every metric of one table; all tables share the resamples, as comparisons on the same images do."""
    paired = draw(regime, rng)
    resampled = resample(paired, RESAMPLES, 0)
    return {
        name: _Line(
            resampled.spreads[name].differences(values, VarianceCorrection.of(paired.frame, name)).without_base(),
            resampled.replicates[name][1:] - resampled.replicates[name][0],
            values[1:] - values[0],
        )
        for name, values in resampled.values.items()
    }


def _stacked(by_table: Sequence[Differences]) -> Differences:
    def stacked(by_rule: Sequence[Uncertainty]) -> Uncertainty:
        return Uncertainty(*(np.stack([vars(item)[name] for item in by_rule]) for name in vars(by_rule[0])))

    return Differences(
        np.stack([item.deltas for item in by_table]),
        stacked([item.unpaired for item in by_table]),
        stacked([item.paired for item in by_table]),
        np.stack([item.use_both for item in by_table]),
    )


def interval_of(share: float, tables: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a proportion.

    Wilson, "Probable inference, the law of succession, and statistical inference", JASA 1927.

    >>> [round(end, 4) for end in interval_of(0.05, 1000)]
    [0.0381, 0.0653]
    """
    z = 1.959964
    middle = (share + z**2 / (2 * tables)) / (1 + z**2 / tables)
    half = z / (1 + z**2 / tables) * float(np.sqrt(share * (1 - share) / tables + z**2 / (4 * tables**2)))
    return middle - half, middle + half
