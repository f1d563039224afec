"""The table of differences: for each row and metric a difference from the baseline, its interval and a verdict.

A row has one p for each metric: the larger of that over groups and that over groups and seeds. Holm's correction over
the rows is made on this one, so that the chance that any of several equal rows gets a verdict stays 5 %. Only the rows
within a metric are a family; the number of metrics is not corrected for.

The doubt over seeds is a t with S - 1 degrees of freedom from the row's own differences. With three seeds and seven
rows a difference must be 6.8 times its spread over seeds, with five seeds 2.3 times. Two ways that ask for less gave
wrong verdicts in simulated tables of equal rows: a spread pooled over the rows in 15 to 24 % of those whose baseline
was five times as noisy as the rest, and a sum of both variances with Satterthwaite's degrees of freedom in 13 to 28 %
of those where seeds outweighed groups. More seeds cost little, a wrong verdict more.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from benchmarks.bootstrap import HIGHER_IS_BETTER, Floats
from benchmarks.paired import Paired
from benchmarks.record import RunRecord
from benchmarks.resampled import Resampled
from benchmarks.significance import grown, holm, interval, p_value

BETTER, WORSE, CANNOT_TELL = "better", "worse", "can't tell"
REASONS = {
    "groups": "the groups are too few to be sure of it",
    "seeds": "the seeds are too few or differ too much",
    "rows": "it does not stand out among this many rows (Holm's correction)",
    "size": "the difference is below 0.001, too small to choose by",
}
"""Why there is no verdict on a difference whose interval leaves out 0; the word stands behind the verdict."""
LEVEL = 0.05
SMALLEST = 0.001
"""A tenth of a point: a smaller difference gets no verdict, however sure it is."""
FEWEST_GROUPS = 20
"""With fewer groups than this the bootstrap's interval is too narrow for a verdict."""


def table_of(
    paired: Paired, resampled: Resampled, higher_is_better: Mapping[str, bool] = HIGHER_IS_BETTER
) -> pd.DataFrame:
    """One line per row and metric, the baseline first; a figure that a run does not have is NaN.

    A difference is averaged over seeds inside each resample of the groups; its interval is the percentile one.

    Args:
        paired: the rows; the first is the baseline.
        resampled: their metrics on resamples of the groups.
        higher_is_better: the direction of each metric.
    """
    names, lines = list(paired.answers), []
    known = {name: _spread_is_known(paired.records[name] + paired.records[names[0]]) for name in names}
    for metric, values in resampled.values.items():
        moved = resampled.moved[metric]
        cells = [_base_cell(values[0])]
        for value, drawn in zip(values[1:], moved[1:], strict=True):
            cells.append(_cell(drawn - moved[0], value, value - values[0], paired.frame.n_groups))
        adjusted = [math.nan, *holm([max(cell["p"], cell["p_seeds"]) for cell in cells[1:]])]
        for name, cell, p in zip(names, cells, adjusted, strict=True):
            line = {"row": name, "metric": metric} | cell | {"p_holm": p}
            told = verdict_of(line, paired.frame.n_groups, known[name], higher_is_better[metric])
            verdict = "" if name == names[0] else told
            lines.append(line | {"verdict": verdict})
    return pd.DataFrame(lines)


def _base_cell(values: Floats) -> dict[str, Any]:
    empty = dict.fromkeys(("delta", "low", "high", "p", "p_seeds"), math.nan)
    return {"value": float(values.mean()), "seed_sd": _sd(values)} | empty


def _cell(deltas: Floats, values: Floats, seed_deltas: Floats, n_groups: int) -> dict[str, Any]:
    point = float(seed_deltas.mean())
    low, high = interval(deltas)
    wide = grown(deltas, point, n_groups)
    found = {"value": float(values.mean()), "seed_sd": _sd(seed_deltas), "delta": point, "low": low, "high": high}
    return found | {"p": p_value(wide), "p_seeds": p_value(wide, seed_deltas)}


def _sd(values: Floats) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else math.nan


def _spread_is_known(runs: Sequence[RunRecord]) -> bool:
    """Whether the spread over seeds can be judged: there are several, or no run depends on its seed."""
    return len({run.seed for run in runs}) > 1 or all(run.reason == "solved" for run in runs)


def verdict_of(line: dict[str, Any], n_groups: int, spread_is_known: bool, higher_is_better: bool) -> str:
    """Better, worse or can't tell; the last with a word of REASONS where the interval leaves out 0.

    Args:
        line: delta, low, high, p, p_seeds and p_holm.
        n_groups: groups of the compared rows, G.
        spread_is_known: whether the spread over seeds can be judged.
        higher_is_better: the direction of the metric.
    """
    if not all(math.isfinite(line[name]) for name in ("delta", "low", "high", "p", "p_seeds", "p_holm")):
        return CANNOT_TELL
    enough = n_groups >= FEWEST_GROUPS
    if enough and spread_is_known and line["p_holm"] < LEVEL:
        if abs(line["delta"]) < SMALLEST:
            return f"{CANNOT_TELL} (size)"
        return BETTER if (line["delta"] > 0) == higher_is_better else WORSE
    if line["low"] <= 0 <= line["high"]:
        return CANNOT_TELL
    if not enough or line["p"] >= LEVEL:
        return f"{CANNOT_TELL} (groups)"
    return f"{CANNOT_TELL} ({'rows' if spread_is_known and line['p_seeds'] < LEVEL else 'seeds'})"
