"""The table of differences: for each row and metric the difference from the baseline, its interval and a verdict.

Interval and verdict share one estimate of the uncertainty due to groups and seeds
(`frostbench.benchmarks.comparison.significance`). The interval is that of a single difference, at 95 %: it excludes 0
if p is below .05. A verdict requires more: p is Holm-corrected over the rows of a metric, so that if all rows are
equal, the probability that any of them gets a verdict stays at 5 %. There is no correction for the number of metrics;
`chance_verdicts` returns how many metrics can be expected to get a verdict by chance. docs/results/verdicts.md reports
level and power of the rule in simulations.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from frostbench.benchmarks.comparison.frame import Floats
from frostbench.benchmarks.comparison.groups import VarianceCorrection
from frostbench.benchmarks.comparison.metrics import HIGHER_IS_BETTER
from frostbench.benchmarks.comparison.paired import Paired
from frostbench.benchmarks.comparison.resampled import Resampled
from frostbench.benchmarks.comparison.settling import NO_ESTIMATE, settling_data
from frostbench.benchmarks.comparison.significance import LEVEL, Differences, holm
from frostbench.benchmarks.runs.record import RunRecord

BETTER, WORSE, CANNOT_TELL = "better", "worse", "can't tell"
REASONS = {
    "groups": "there are too few groups for a reliable verdict",
    "seeds": "there is only one seed, so the variation over seeds is unknown",
    "rows": "the difference is not significant after Holm's correction for the number of rows compared",
    "size": "the difference is below 0.001, too small to matter",
}
"""Reasons for no verdict although the interval excludes 0; the key is appended to the verdict in parentheses."""
SMALLEST = 0.001
"""A difference below this, a tenth of a percentage point, gets no verdict, however significant it is."""
FEWEST_GROUPS = 20
"""With fewer groups the variance over resamples is too uncertain for a verdict."""


def table_of(
    paired: Paired, resampled: Resampled, higher_is_better: Mapping[str, bool] = HIGHER_IS_BETTER
) -> pd.DataFrame:
    """Build the table: one line per row and metric, the baseline first; figures that a run lacks are NaN.

    Args:
        paired: the rows; the first is the baseline.
        resampled: their metrics on resamples of the groups.
        higher_is_better: direction of each metric.
    """
    names, lines = list(paired.predictions), []
    spread_known = [_spread_is_known(paired.records[name] + paired.records[names[0]]) for name in names]
    for metric, values in resampled.values.items():
        differences = resampled.spreads[metric].differences(values, VarianceCorrection.of(paired.frame, metric))
        cells = _cells(values, differences)
        family_sizes = family_sizes_of([cell["p"] for cell in cells[1:]])
        for index, (name, cell) in enumerate(zip(names, cells, strict=True)):
            line = {"row": name, "metric": metric} | cell | {"judged": False, "verdict": ""}
            if index:
                has_groups = paired.frame.n_groups >= FEWEST_GROUPS
                line["judged"] = has_groups and spread_known[index] and math.isfinite(line["p_holm"])
                line["verdict"] = verdict_of(line, paired.frame.n_groups, spread_known[index], higher_is_better[metric])
                line |= _settling_data(line, differences, index, paired, family_sizes[index - 1])
            lines.append(line)
    return pd.DataFrame(lines)


def _cells(values: Floats, differences: Differences) -> list[dict[str, Any]]:
    empty = dict.fromkeys(("delta", "low", "high", "sd_groups", "sd_seeds", "p", "p_holm"), math.nan)
    cells = [{"value": float(values[0].mean()), "seed_sd": _sd(values[0])} | empty | NO_ESTIMATE]
    half, p = differences.half_width(LEVEL), differences.p
    adjusted = holm(p[1:].tolist())
    for index in range(1, len(values)):
        delta, uncertainty = float(differences.deltas[index]), differences.uncertainty(index)
        cells.append(
            {
                "value": float(values[index].mean()),
                "seed_sd": _sd(values[index] - values[0]),
                "delta": delta,
                "low": delta - float(half[index]),
                "high": delta + float(half[index]),
                "sd_groups": math.sqrt(float(uncertainty.rows)),
                "sd_seeds": math.sqrt(float(uncertainty.seeds)),
                "p": float(p[index]),
                "p_holm": adjusted[index - 1],
            }
            | NO_ESTIMATE
        )
    return cells


def family_sizes_of(p_values: Sequence[float]) -> list[int]:
    """Return the factor of Holm's correction for each p value: the number of p values that are at least as large.

    >>> family_sizes_of([0.01, 0.04, 0.03])
    [3, 1, 2]
    """
    return [max(1, int(np.sum(np.asarray(p_values) >= p))) for p in p_values]


def _settling_data(
    line: Mapping[str, Any], differences: Differences, index: int, paired: Paired, family: int
) -> dict[str, float]:
    is_open = line["verdict"] in (CANNOT_TELL, f"{CANNOT_TELL} (rows)") and abs(line["delta"]) >= SMALLEST
    if not is_open:
        return dict(NO_ESTIMATE)
    return settling_data(differences, index, len(paired.seeds), LEVEL / family, FEWEST_GROUPS / paired.frame.n_groups)


def _sd(values: Floats) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else math.nan


def _spread_is_known(runs: Sequence[RunRecord]) -> bool:
    """Return whether the spread over seeds can be estimated: there are several seeds, or no run depends on its seed."""
    return len({run.seed for run in runs}) > 1 or all(run.reason == "solved" for run in runs)


def verdict_of(line: Mapping[str, Any], n_groups: int, spread_is_known: bool, higher_is_better: bool) -> str:
    """Return better, worse or can't tell; if the interval excludes 0, can't tell is followed by a reason from REASONS.

    Args:
        line: delta, low, high, p and p_holm.
        n_groups: number of groups among the evaluated rows, G.
        spread_is_known: whether the spread over seeds can be estimated.
        higher_is_better: direction of the metric.
    """
    if not all(math.isfinite(line[name]) for name in ("delta", "low", "high", "p", "p_holm")):
        return CANNOT_TELL
    if line["p"] >= LEVEL:
        return CANNOT_TELL
    if n_groups < FEWEST_GROUPS:
        return f"{CANNOT_TELL} (groups)"
    if not spread_is_known:
        return f"{CANNOT_TELL} (seeds)"
    if line["p_holm"] >= LEVEL:
        return f"{CANNOT_TELL} (rows)"
    if abs(line["delta"]) < SMALLEST:
        return f"{CANNOT_TELL} (size)"
    return BETTER if (line["delta"] > 0) == higher_is_better else WORSE


def chance_verdicts(table: pd.DataFrame) -> tuple[float, int]:
    """Return the largest expected number of metrics with a verdict if all rows were equal, and the actual number.

    Each metric on which a verdict is possible has at most a 5 % chance that some row gets one.
    """
    differences = table[table["judged"]]
    given = differences[differences["verdict"].isin([BETTER, WORSE])]
    return LEVEL * differences["metric"].nunique(), int(given["metric"].nunique())
