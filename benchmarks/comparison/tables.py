"""Format a comparison as aligned text, and save it as CSV, JSON or Parquet."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from frostbench.benchmarks.comparison.compare import BETTER, CANNOT_TELL, ROLE_WORDS, WORSE, Comparison
from frostbench.benchmarks.comparison.deltas import REASONS
from frostbench.benchmarks.comparison.metrics import MAIN as MAIN
from frostbench.benchmarks.comparison.settling import words_of
from frostbench.benchmarks.comparison.significance import LEVEL
from frostbench.benchmarks.settings.nouns import noun_for, with_noun
from frostbench.embedcache.names import one_line
from frostbench.embedcache.outputs.places import check_file
from frostbench.embedcache.outputs.tables import TABLES, write_frame
from frostbench.embedcache.outputs.writing import write_text

MARKS = {BETTER: "*", WORSE: "!"}
INTERVALS = (
    "Each 95 % interval is for a single difference, not corrected for multiple comparisons, and accounts for the "
    "variation over groups and seeds. Verdicts use the same uncertainty with Holm's correction for the number of rows "
    "compared."
)


SETTLING = "Data needed for a verdict if the true difference equals the observed one"


def to_text(comparison: Comparison, main: str = MAIN) -> str:
    """Return the comparison as plain text: a table of the main metric, and tables of differences in the others."""
    head = _head(comparison)
    others = [name for name in comparison.metrics if name != main]
    parts = [head, aligned(_main_lines(comparison, main))]
    for start in range(0, len(others), 6):
        parts.append(aligned(_delta_lines(comparison, others[start : start + 6])))
    parts.append(
        "Other metrics are shown as differences from the baseline: * better, ! worse, unmarked: can't tell. "
        "For nll, brier and ece, lower is better."
    )
    parts.append(INTERVALS)
    if text := chance_words(comparison):
        parts.append(text)
    parts += [f"{verdict}: {reason}." for verdict, reason in reasons_in(comparison).items()]
    if text := settling_text(comparison, main):
        parts.append(text)
    parts += [f"Note: {note}" for note in comparison.notes]
    return "\n\n".join(parts) + "\n"


def _head(comparison: Comparison) -> str:
    others, metrics = len(comparison.rows) - 1, len(comparison.metrics)
    seeds = f"{noun_for(len(comparison.seeds), 'seed')} {', '.join(map(str, comparison.seeds))}"
    seen = with_noun(comparison.runs_seen, "run of this store was", "runs of this store were")
    return "\n".join(
        [
            f"{comparison.title}: {ROLE_WORDS[comparison.role]}, baseline {comparison.baseline!r}",
            f"{with_noun(comparison.n_rows, 'row')} in {with_noun(comparison.n_groups, 'group')}; {seeds}; "
            f"95 % intervals over groups ({with_noun(comparison.resamples, 'resample')}) and seeds",
            f"{with_noun(others * metrics, 'comparison')} ({with_noun(others, 'row')} x "
            f"{with_noun(metrics, 'metric')}); {seen} evaluated on these rows",
            "verdicts are corrected for the number of rows within each metric (Holm), not for the number of metrics",
        ]
    )


def reasons_in(comparison: Comparison) -> dict[str, str]:
    """Return the verdicts in a comparison that carry a reason, with its explanation."""
    verdicts = set(comparison.table["verdict"])
    reasons = {f"{CANNOT_TELL} ({word})": f"the interval excludes 0, but {why}" for word, why in REASONS.items()}
    return {verdict: reason for verdict, reason in reasons.items() if verdict in verdicts}


def chance_words(comparison: Comparison) -> str:
    """State how many verdicts to expect by chance, and how many there are; empty if no verdict is possible."""
    chance, with_verdict = comparison.chance
    n_metrics = round(chance / LEVEL)
    if n_metrics == 0:
        return ""
    return (
        f"There is no correction for the number of metrics: if all rows were equal, up to {chance:.1f} of the "
        f"{with_noun(n_metrics, 'metric')} would be expected to show a verdict by chance; here "
        f"{with_verdict or 'none'} {'does' if with_verdict <= 1 else 'do'}."
    )


def settling_words(comparison: Comparison, row: str, metric: str) -> str:
    """Describe the data that would settle an undecided difference; empty if there is no estimate."""
    cell = comparison.line(row, metric)
    has_groups = comparison.n_groups < comparison.n_rows
    return "" if cell["verdict"] in MARKS else words_of(cell["more_groups"], cell["more_seeds"], has_groups)


def settling_text(comparison: Comparison, metric: str) -> str:
    """List the data that would settle the undecided rows on a metric, one line each; empty if there is no estimate."""
    by_row = {row: settling_words(comparison, row, metric) for row in comparison.rows}
    lines = [f"  {row}: {description}" for row, description in by_row.items() if description]
    return "\n".join([f"{SETTLING} ({metric}):", *lines]) if lines else ""


def _main_lines(comparison: Comparison, metric: str) -> list[list[str]]:
    lines = [["row", metric, "delta", "95 % interval", "seed sd", "verdict"]]
    for row in comparison.rows:
        cell = comparison.line(row, metric)
        span = f"[{cell['low']:+.4f}, {cell['high']:+.4f}]" if math.isfinite(cell["low"]) else ""
        cells = [number(cell["value"]), signed(cell["delta"]), span, number(cell["seed_sd"]), cell["verdict"]]
        lines.append([row, *cells])
    return lines


def _delta_lines(comparison: Comparison, metrics: Sequence[str]) -> list[list[str]]:
    lines = [["row", *metrics]]
    for row in comparison.rows:
        cells = [comparison.line(row, metric) for metric in metrics]
        base = row == comparison.baseline
        lines.append([row, *(number(c["value"]) if base else _marked(c["delta"], c["verdict"]) for c in cells)])
    return lines


def _marked(delta: float, verdict: str) -> str:
    return signed(delta) + MARKS.get(verdict, " ")


def signed(value: float) -> str:
    """Format a difference with its sign; empty for NaN."""
    return "" if math.isnan(value) else f"{value:+.4f}"


def number(value: float) -> str:
    """Format a value; empty for NaN."""
    return "" if math.isnan(value) else f"{value:.4f}"


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Align lines of cells in columns, the first to the left and the others to the right, one line of text each.

    >>> print(aligned([["row", "f1"], ["plain", "0.5"]]))
    row     f1
    plain  0.5
    """
    lines = [[one_line(cell) for cell in line] for line in lines]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    aligned_lines = [
        "  ".join([line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    ]
    return "\n".join(line.rstrip() for line in aligned_lines)


def save(comparison: Comparison, path: Path) -> None:
    """Write the table to a .csv, .parquet or .json file; JSON also contains the description of the comparison.

    The column `chance_verdicts` has the same value on every line: the largest expected number of metrics with a verdict
    by chance.

    Raises:
        OutputError: the file has another suffix, or cannot be written.
    """
    chance, with_verdict = comparison.chance
    table = comparison.table.assign(role=comparison.role, baseline=comparison.baseline, chance_verdicts=chance)
    about: dict[str, object] = {name: value for name, value in vars(comparison).items() if name != "table"}
    about |= {"chance_verdicts": chance, "metrics_with_verdict": with_verdict}
    write_table(table, lambda: about | {"table": json.loads(table.to_json(orient="records"))}, path)


def write_table(table: pd.DataFrame, tree: Callable[[], object], path: Path) -> None:
    """Write a table to a .csv or .parquet file, or the result of `tree` to a .json file, atomically.

    Raises:
        OutputError: the file has another suffix, or cannot be written.
    """
    check_file(path, TABLES, "a table", makes_folder=True)
    if path.suffix.lower() == ".json":
        write_text(path, json.dumps(tree(), indent=1))
    else:
        write_frame(table, path)
