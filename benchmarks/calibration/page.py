"""Write calibration reports as one self-contained HTML file."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from frostbench.benchmarks.calibration.charts import class_gaps, curves_of, reliability_chart, risk_coverage_chart
from frostbench.benchmarks.calibration.classes import ClassCalibration
from frostbench.benchmarks.calibration.measured import CalibrationReport
from frostbench.benchmarks.calibration.resampled import HIGHER_IS_BETTER
from frostbench.benchmarks.calibration.tables import READING, SIDE_WORDS, TITLES
from frostbench.benchmarks.comparison.compare import BETTER, ROLE_WORDS, WORSE
from frostbench.benchmarks.comparison.tables import number, signed
from frostbench.benchmarks.report.page import write_page
from frostbench.training.metrics.ood import SCORES

MARKS = {BETTER: "▲", WORSE: "▼"}
ARROWS = {True: "↑", False: "↓", None: ""}
"""Arrow towards better values, by whether higher is better; None for a metric without a better direction."""
SHORT = {"before": "before", "after": "after scaling"}
TABLES = (
    ("ece", "cece", "smece", "nll", "brier"),
    ("ece_over", "ece_under", "aece", "aurc", "e_aurc"),
    tuple(f"auroc_{score}" for score in SCORES),
)
"""Metrics of the tables that are visible at once, few enough for the page width; the others are collapsed."""
MOST_DIAGRAMS = 8
"""Most rows with a reliability diagram, starting with the baseline and the best row."""


def write_calibration_page(reports: Sequence[CalibrationReport], out: Path) -> Path:
    """Write one HTML file with a section per report; it loads no other file or server."""
    title = "Calibration: " + " · ".join(dict.fromkeys(report.title for report in reports))
    values = {"title": title, "sections": [_section(report) for report in reports], "reading": READING}
    return write_page("calibration.html.j2", values, out)


def _section(report: CalibrationReport) -> dict[str, Any]:
    chart_sides = [side for side in ("before", "after") if side in report.sides]
    rows = [row for row in dict.fromkeys((report.baseline, report.best, *report.rows)) if report.confidences[row]]
    return {
        "report": report,
        "rows_words": ROLE_WORDS[report.role],
        "is_test": report.role == "test",
        "n_rows": len(report.draws.groups),
        "n_groups": int(report.draws.groups.max()) + 1,
        "sides": [_side(report, side) for side in report.sides],
        "temperatures": {row: [number(t) for t in values] for row, values in report.temperatures.items()},
        "reliability": [(row, _reliability(report, row)) for row in rows[:MOST_DIAGRAMS]],
        "hidden": len(rows) - MOST_DIAGRAMS,
        "curves": [(SIDE_WORDS[side], _curves(report, side)) for side in chart_sides],
        "classes": [_classes(report, row) for row in report.classes if report.classes[row]],
    }


def _side(report: CalibrationReport, side: str) -> dict[str, Any]:
    """Return the tables of one side; the last is collapsed."""
    shown = [name for names in TABLES for name in names]
    parts = [*TABLES, tuple(name for name in report.metrics if name not in shown)]
    here = set(report.table[report.table["side"] == side]["metric"])
    tables = [_table(report, side, names) for part in parts if (names := [name for name in part if name in here])]
    return {"words": SIDE_WORDS[side], "tables": tables}


def _table(report: CalibrationReport, side: str, names: Sequence[str]) -> dict[str, Any]:
    return {
        "metrics": [(TITLES[name], ARROWS[HIGHER_IS_BETTER.get(name)]) for name in names],
        "rows": [(row, [_cell(report.line(side, row, name)) for name in names]) for row in report.rows],
    }


def _cell(line: Mapping[str, float | str]) -> dict[str, str]:
    """Return the texts of one cell; empty if the row lacks the metric."""
    if not line or math.isnan(float(line["value"])):
        return dict.fromkeys(("value", "span", "delta", "moved", "verdict", "mark"), "")
    verdict, delta = str(line["verdict"]), float(line["delta"])
    known = math.isfinite(float(line["low"]))
    return {
        "value": number(float(line["value"])),
        "span": f"{float(line['value_low']):.4f} … {float(line['value_high']):.4f}",
        "delta": signed(delta),
        "moved": f"{signed(float(line['low']))} … {signed(float(line['high']))}" if known else "",
        "verdict": verdict if not math.isnan(delta) else "",
        "mark": MARKS.get(verdict, ""),
    }


def _reliability(report: CalibrationReport, row: str) -> Markup:
    names = {side: words for side, words in SHORT.items() if side in report.confidences[row]}
    return Markup(reliability_chart(report.confidences[row], names, row, report.draws))


def _curves(report: CalibrationReport, side: str) -> Markup:
    return Markup(risk_coverage_chart(curves_of(report, side), f"Risk against coverage {SIDE_WORDS[side]}"))


def _classes(report: CalibrationReport, row: str) -> dict[str, Any]:
    """Return the charts by class of one row, and its lines by class, those with the most images first."""
    sides = {side: values for side, values in report.classes[row].items() if side in ("before", "after")}
    charts = [Markup(class_gaps(c, f"Gap by class of {row}, {SIDE_WORDS[side]}")) for side, c in sides.items()]
    together = zip(*sides.values(), strict=True)
    lines = [(each[0], [_class_cell(c) for c in each]) for each in together]
    return {
        "row": row,
        "sides": [SIDE_WORDS[side] for side in sides],
        "charts": charts,
        "lines": sorted(lines, key=lambda line: -line[0].support),
    }


def _class_cell(c: ClassCalibration) -> dict[str, str]:
    known = math.isfinite(c.gap)
    return {
        "predicted": f"{c.predicted:.0f}" if c.predicted == round(c.predicted) else f"{c.predicted:.1f}",
        "ece": number(c.ece),
        "gap": f"{c.gap:+.3f}" if known else "",
        "span": f"{c.low:+.3f} … {c.high:+.3f}" if known else "",
    }
