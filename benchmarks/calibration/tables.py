"""Format a calibration report as aligned text, and save it as CSV, JSON or Parquet."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from frostbench.benchmarks.calibration.measured import CalibrationReport
from frostbench.benchmarks.comparison.compare import ROLE_WORDS
from frostbench.benchmarks.comparison.tables import aligned, number, signed, write_table
from frostbench.benchmarks.settings.nouns import noun_for, with_noun
from frostbench.training.metrics.calibration import TITLES as OF_CALIBRATION

TITLES = dict(OF_CALIBRATION) | {
    "auroc_msp": "OOD AUROC, largest probability",
    "auroc_neg_entropy": "OOD AUROC, entropy",
    "auroc_max_logit": "OOD AUROC, largest logit",
    "auroc_energy": "OOD AUROC, energy",
}
"""Metric titles in tables."""
SIDE_WORDS = {
    "before": "before temperature scaling",
    "after": "after temperature scaling",
    "as_is": "as is, with the heads' own calibration",
}
SHOWN = ("ece", "ece_over", "ece_under", "aece", "cece", "smece", "nll", "brier", "aurc")
"""Metrics in the text; files contain all of them."""
READING = (
    "With few rows, calibration errors are mostly noise, as shown by intervals that lie below the value. Lower is "
    "better, except for AUROC. Verdicts (better, worse or can't tell) follow the rules of frostbench compare: each "
    "interval is for a single difference and accounts for groups and seeds; verdicts are also corrected for the number "
    "of rows compared."
)


def to_text(report: CalibrationReport) -> str:
    """Return the report as plain text: one table per side, with one metric below the other."""
    metrics = [name for name in report.metrics if name in SHOWN or name.startswith("auroc")]
    parts = [_head(report), aligned(_temperatures(report))]
    for side in report.sides:
        parts.append(f"{SIDE_WORDS[side]}\n" + table_text(report, side, metrics))
    parts.append(READING)
    parts += [f"Note: {note}" for note in report.notes]
    return "\n\n".join(parts) + "\n"


def _head(report: CalibrationReport) -> str:
    others = f"; {with_noun(report.others, 'row')} of other classes for OOD detection" if report.others else ""
    groups = with_noun(int(report.draws.groups.max()) + 1, "group")
    seeds = f"{noun_for(len(report.seeds), 'seed')} {', '.join(map(str, report.seeds))}"
    seen = with_noun(report.runs_seen, "run of this store was", "runs of this store were")
    return "\n".join(
        [
            f"{report.title}: calibration on {ROLE_WORDS[report.role]}, baseline {report.baseline!r}",
            f"{with_noun(len(report.draws.groups), 'row')} in {groups}; {seeds}; 95 % intervals from "
            f"{with_noun(report.draws.count, 'resample')} of the groups{others}",
            f"{seen} evaluated on these rows",
        ]
    )


def _temperatures(report: CalibrationReport) -> list[list[str]]:
    lines = [["temperature by seed", *map(str, report.seeds)]]
    return lines + [[row, *map(number, values)] for row, values in report.temperatures.items()]


def table_text(report: CalibrationReport, side: str, metrics: Sequence[str]) -> str:
    """Return the lines of one side: metric, row, value, difference from the baseline and verdict."""
    lines = [["metric", "row", "value", "95 % interval", "delta", "95 % interval", "verdict"]]
    for metric in metrics:
        for row in report.rows:
            cell = report.line(side, row, metric)
            if cell:
                lines.append([TITLES[metric], row, *cells(cell)])
    widths = max(len(line[1]) for line in lines)
    return aligned([[line[0], line[1].ljust(widths), *line[2:]] for line in lines])


def cells(line: dict[str, float | str]) -> list[str]:
    """Format value, its interval, difference, its interval and verdict of a line of the table."""
    value, low, high, delta = (float(line[name]) for name in ("value", "value_low", "value_high", "delta"))
    if math.isnan(value):
        return [""] * 5
    span = f"[{low:.4f}, {high:.4f}]"
    moved = "" if math.isnan(float(line["low"])) else f"[{float(line['low']):+.4f}, {float(line['high']):+.4f}]"
    return [number(value), span, signed(delta), moved, str(line["verdict"])]


def save(reports: Sequence[CalibrationReport], path: Path) -> None:
    """Write the lines of all reports to a .csv, .parquet or .json file; JSON also contains their descriptions.

    Raises:
        OutputError: the file has another suffix, or cannot be written.
    """
    tables = [r.table.assign(cache=r.cache, role=r.role, baseline=r.baseline) for r in reports]
    joined = pd.concat(tables, ignore_index=True)
    write_table(joined, lambda: [_about(r, t) for r, t in zip(reports, tables, strict=True)], path)


def _about(report: CalibrationReport, table: pd.DataFrame) -> dict[str, object]:
    names = ("title", "cache", "role", "baseline", "rows", "best", "seeds", "runs_seen", "others", "notes")
    about = {name: vars(report)[name] for name in names}
    temperatures = {row: [None if math.isnan(t) else t for t in values] for row, values in report.temperatures.items()}
    lines = json.loads(table.to_json(orient="records"))
    return about | {"resamples": report.draws.count, "temperatures": temperatures, "table": lines}
