"""A comparison as aligned text, and as CSV, JSON or Parquet."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from frostbench.benchmarks.comparison.compare import BETTER, CANNOT_TELL, ROLE_WORDS, WORSE, Comparison
from frostbench.benchmarks.comparison.deltas import REASONS
from frostbench.benchmarks.comparison.settling import words_of
from frostbench.benchmarks.comparison.significance import LEVEL
from frostbench.embedcache.names import one_line
from frostbench.embedcache.outputs.places import check_file
from frostbench.embedcache.outputs.tables import TABLES, write_frame
from frostbench.embedcache.outputs.writing import write_text

MAIN = "macro_f1_fg"
MARKS = {BETTER: "*", WORSE: "!"}
INTERVALS = (
    "Intervals are of one row by itself, at 95 %, over the choice of groups and the seeds. Verdicts rest on the same "
    "doubt and are corrected for the number of rows besides."
)


SETTLING = "What would settle it, were the difference as large as it looks"


def to_text(comparison: Comparison, main: str = MAIN) -> str:
    """The comparison as plain text: one table of the main metric, one of the differences of the others."""
    head = _head(comparison)
    others = [name for name in comparison.metrics if name != main]
    parts = [head, aligned(_main_lines(comparison, main))]
    for start in range(0, len(others), 6):
        parts.append(aligned(_other_lines(comparison, others[start : start + 6])))
    parts.append(
        "Other metrics are differences from the baseline: * better, ! worse, neither: can't tell. "
        "Of nll, brier and ece, less is better."
    )
    parts.append(INTERVALS)
    if told := chance_words(comparison):
        parts.append(told)
    parts += [f"{verdict}: {why}." for verdict, why in reasons_in(comparison).items()]
    if told := settling_text(comparison, main):
        parts.append(told)
    parts += [f"Note: {note}" for note in comparison.notes]
    return "\n\n".join(parts) + "\n"


def _head(comparison: Comparison) -> str:
    made = (len(comparison.rows) - 1) * len(comparison.metrics)
    return "\n".join(
        [
            f"{comparison.title}: {ROLE_WORDS[comparison.role]}, baseline {comparison.baseline!r}",
            f"{comparison.n_rows} rows in {comparison.n_groups} groups; seeds {', '.join(map(str, comparison.seeds))}; "
            f"95 % intervals over groups ({comparison.resamples} resamples) and seeds",
            f"{made} comparisons ({len(comparison.rows) - 1} rows x {len(comparison.metrics)} metrics); "
            f"{comparison.runs_seen} runs of this store were evaluated on these rows",
            "verdicts are corrected for the number of rows within each metric (Holm), not for the number of metrics",
        ]
    )


def reasons_in(comparison: Comparison) -> dict[str, str]:
    """The verdicts of a comparison that come with a reason, and what it means."""
    met = set(comparison.table["verdict"])
    told = {f"{CANNOT_TELL} ({word})": why for word, why in REASONS.items()}
    return {verdict: f"the interval leaves out 0, but {why}" for verdict, why in told.items() if verdict in met}


def chance_words(comparison: Comparison) -> str:
    """How many verdicts chance would give among those of a comparison; empty where none could be given."""
    chance, found = comparison.chance
    judged = round(chance / LEVEL)
    if judged == 0:
        return ""
    return (
        f"Metrics are not corrected against one another: of {judged}, chance alone would give a verdict on up to "
        f"{chance:.1f}, were all rows equal; here {found or 'none'} {'has' if found <= 1 else 'have'} one."
    )


def settling_words(comparison: Comparison, row: str, metric: str) -> str:
    """What would settle a difference that cannot be told; empty where nothing is known to."""
    cell = comparison.line(row, metric)
    has_groups = comparison.n_groups < comparison.n_rows
    return "" if cell["verdict"] in MARKS else words_of(cell["more_groups"], cell["more_seeds"], has_groups)


def settling_text(comparison: Comparison, metric: str) -> str:
    """What would settle the rows that cannot be told on a metric, a line each; empty where nothing is known to."""
    told = {row: settling_words(comparison, row, metric) for row in comparison.rows}
    lines = [f"  {row}: {words}" for row, words in told.items() if words]
    return "\n".join([f"{SETTLING} ({metric}):", *lines]) if lines else ""


def _main_lines(comparison: Comparison, metric: str) -> list[list[str]]:
    lines = [["row", metric, "delta", "95 % interval", "seed sd", "verdict"]]
    for row in comparison.rows:
        cell = comparison.line(row, metric)
        span = f"[{cell['low']:+.4f}, {cell['high']:+.4f}]" if math.isfinite(cell["low"]) else ""
        shown = [number(cell["value"]), signed(cell["delta"]), span, number(cell["seed_sd"]), cell["verdict"]]
        lines.append([row, *shown])
    return lines


def _other_lines(comparison: Comparison, metrics: Sequence[str]) -> list[list[str]]:
    lines = [["row", *metrics]]
    for row in comparison.rows:
        cells = [comparison.line(row, metric) for metric in metrics]
        base = row == comparison.baseline
        lines.append([row, *(number(c["value"]) if base else _marked(c["delta"], c["verdict"]) for c in cells)])
    return lines


def _marked(delta: float, verdict: str) -> str:
    return signed(delta) + MARKS.get(verdict, " ")


def signed(value: float) -> str:
    """A difference with its sign; empty where there is none."""
    return "" if math.isnan(value) else f"{value:+.4f}"


def number(value: float) -> str:
    """A figure; empty where there is none."""
    return "" if math.isnan(value) else f"{value:.4f}"


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells as columns; the first is set left and the others right, and no cell breaks its line.

    >>> print(aligned([["row", "f1"], ["plain", "0.5"]]))
    row     f1
    plain  0.5
    """
    lines = [[one_line(cell) for cell in line] for line in lines]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    shown = [
        "  ".join([line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    ]
    return "\n".join(line.rstrip() for line in shown)


def save(comparison: Comparison, path: Path) -> None:
    """Write the table to a .csv, .parquet or .json file; the last also holds what was compared.

    The column `chance_verdicts` is the same on every line: at most how many metrics would have a verdict by chance.

    Raises:
        OutputError: the file has another ending, or cannot be written.
    """
    chance, found = comparison.chance
    table = comparison.table.assign(role=comparison.role, baseline=comparison.baseline, chance_verdicts=chance)
    about: dict[str, object] = {name: value for name, value in vars(comparison).items() if name != "table"}
    about |= {"chance_verdicts": chance, "metrics_with_verdict": found}
    write_table(table, lambda: about | {"table": json.loads(table.to_json(orient="records"))}, path)


def write_table(table: pd.DataFrame, tree: Callable[[], object], path: Path) -> None:
    """Write a table to a .csv or .parquet file, or what a tree gives to a .json file, whole or not at all.

    Raises:
        OutputError: the file has another ending, or cannot be written.
    """
    check_file(path, TABLES, "a table", makes_folder=True)
    if path.suffix.lower() == ".json":
        write_text(path, json.dumps(tree(), indent=1))
    else:
        write_frame(table, path)
