"""The table of differences: for each row and metric a difference from the baseline, its interval and a verdict.

Interval and verdict rest on one doubt (`frostbench.benchmarks.comparison.significance`), that of groups and seeds, each
counted once. The interval is that of a difference by itself, at 95 %: it leaves out 0 where p is below .05. A verdict
needs
more: p is corrected by Holm over the rows of a metric, so that the chance that any of several equal rows gets one stays
5 %. The number of metrics is not corrected for; `chance_verdicts` says how many that gives. docs/results/verdicts.md
holds the level of this rule in made-up tables, and its power.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from frostbench.benchmarks.comparison.bootstrap import HIGHER_IS_BETTER, Floats
from frostbench.benchmarks.comparison.groups import Groups
from frostbench.benchmarks.comparison.paired import Paired
from frostbench.benchmarks.comparison.resampled import Resampled
from frostbench.benchmarks.comparison.settling import NOTHING, settled
from frostbench.benchmarks.comparison.significance import LEVEL, Judgement, holm
from frostbench.benchmarks.runs.record import RunRecord

BETTER, WORSE, CANNOT_TELL = "better", "worse", "can't tell"
REASONS = {
    "groups": "the groups are too few to be sure of it",
    "seeds": "there is one seed, and the spread over seeds is unknown",
    "rows": "it does not stand out among this many rows (Holm's correction)",
    "size": "the difference is below 0.001, too small to choose by",
}
"""Why there is no verdict on a difference whose interval leaves out 0; the word stands behind the verdict."""
SMALLEST = 0.001
"""A tenth of a point: a smaller difference gets no verdict, however sure it is."""
FEWEST_GROUPS = 20
"""With fewer groups than this a variance over resamples is too uncertain for a verdict."""


def table_of(
    paired: Paired, resampled: Resampled, higher_is_better: Mapping[str, bool] = HIGHER_IS_BETTER
) -> pd.DataFrame:
    """One line per row and metric, the baseline first; a figure that a run does not have is NaN.

    Args:
        paired: the rows; the first is the baseline.
        resampled: their metrics on resamples of the groups.
        higher_is_better: the direction of each metric.
    """
    names, lines = list(paired.answers), []
    known = [_spread_is_known(paired.records[name] + paired.records[names[0]]) for name in names]
    for metric, values in resampled.values.items():
        judged = resampled.spreads[metric].judged(values, Groups.of(paired.frame, metric))
        cells = _cells(values, judged)
        families = holm_families([cell["p"] for cell in cells[1:]])
        for place, (name, cell) in enumerate(zip(names, cells, strict=True)):
            line = {"row": name, "metric": metric} | cell | {"judged": False, "verdict": ""}
            if place:
                enough = paired.frame.n_groups >= FEWEST_GROUPS
                line["judged"] = enough and known[place] and math.isfinite(line["p_holm"])
                line["verdict"] = verdict_of(line, paired.frame.n_groups, known[place], higher_is_better[metric])
                line |= _settled(line, judged, place, paired, families[place - 1])
            lines.append(line)
    return pd.DataFrame(lines)


def _cells(values: Floats, judged: Judgement) -> list[dict[str, Any]]:
    """The figures of each row, the base first."""
    empty = dict.fromkeys(("delta", "low", "high", "sd_groups", "sd_seeds", "p", "p_holm"), math.nan)
    cells = [{"value": float(values[0].mean()), "seed_sd": _sd(values[0])} | empty | NOTHING]
    half, p = judged.half_width(LEVEL), judged.p
    adjusted = holm(p[1:].tolist())
    for place in range(1, len(values)):
        delta, doubt = float(judged.deltas[place]), judged.narrower(place)
        cells.append(
            {
                "value": float(values[place].mean()),
                "seed_sd": _sd(values[place] - values[0]),
                "delta": delta,
                "low": delta - float(half[place]),
                "high": delta + float(half[place]),
                "sd_groups": math.sqrt(float(doubt.rows)),
                "sd_seeds": math.sqrt(float(doubt.seeds)),
                "p": float(p[place]),
                "p_holm": adjusted[place - 1],
            }
            | NOTHING
        )
    return cells


def holm_families(p_values: Sequence[float]) -> list[int]:
    """Among how many comparisons Holm's correction counts each: those with a p at least as large.

    >>> holm_families([0.01, 0.04, 0.03])
    [3, 1, 2]
    """
    return [max(1, int(np.sum(np.asarray(p_values) >= p))) for p in p_values]


def _settled(line: Mapping[str, Any], judged: Judgement, place: int, paired: Paired, family: int) -> dict[str, float]:
    """What would settle a difference that got no verdict."""
    is_open = line["verdict"] in (CANNOT_TELL, f"{CANNOT_TELL} (rows)") and abs(line["delta"]) >= SMALLEST
    if not is_open:
        return dict(NOTHING)
    return settled(judged, place, len(paired.seeds), LEVEL / family, FEWEST_GROUPS / paired.frame.n_groups)


def _sd(values: Floats) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else math.nan


def _spread_is_known(runs: Sequence[RunRecord]) -> bool:
    """Whether the spread over seeds can be judged: there are several, or no run depends on its seed."""
    return len({run.seed for run in runs}) > 1 or all(run.reason == "solved" for run in runs)


def verdict_of(line: Mapping[str, Any], n_groups: int, spread_is_known: bool, higher_is_better: bool) -> str:
    """Better, worse or can't tell; the last with a word of REASONS where the interval leaves out 0.

    Args:
        line: delta, low, high, p and p_holm.
        n_groups: groups of the compared rows, G.
        spread_is_known: whether the spread over seeds can be judged.
        higher_is_better: the direction of the metric.
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
    """How many metrics would have a verdict by chance if all rows were equal, at most, and how many have one.

    Each metric in which something could be told has a chance of 5 % for any verdict at all.
    """
    judged = table[table["judged"]]
    given = judged[judged["verdict"].isin([BETTER, WORSE])]
    return LEVEL * judged["metric"].nunique(), int(given["metric"].nunique())
