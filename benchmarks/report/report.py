"""Write comparisons as one self-contained HTML file with tables, charts, warnings and reading instructions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from frostbench.benchmarks.comparison.changes import Change, data_changes, option_changes
from frostbench.benchmarks.comparison.class_deltas import ClassRow, class_rows
from frostbench.benchmarks.comparison.compare import BETTER, CANNOT_TELL, ROLE_WORDS, WORSE, Comparison
from frostbench.benchmarks.comparison.paired import Paired, load
from frostbench.benchmarks.comparison.resampled import resample
from frostbench.benchmarks.comparison.tables import (
    MAIN,
    chance_words,
    number,
    reasons_in,
    settling_words,
    signed,
)
from frostbench.benchmarks.report.charts import (
    Curve,
    Interval,
    Reliability,
    forest_plot,
    learning_curves,
    reliability_diagram,
)
from frostbench.benchmarks.report.class_charts import MOST_CLASSES, class_histogram, confusion_matrix
from frostbench.benchmarks.report.page import write_page
from frostbench.benchmarks.runs.record import RunRecord, mean_preference
from frostbench.training.checks.conflicts import check
from frostbench.training.metrics.classification import NOTHING, Preference
from frostbench.training.run import RunSpec

TITLES = {
    "macro_f1_fg": "macro F1",
    "weighted_f1_fg": "weighted F1",
    "macro_precision_fg": "macro precision",
    "macro_recall_fg": "macro recall",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "recall_many": "recall, many",
    "recall_medium": "recall, medium",
    "recall_few": "recall, few",
    "nll": "NLL ↓",
    "brier": "Brier ↓",
    "ece": "ECE ↓",
}
MARKS = {BETTER: "▲", WORSE: "▼"}


def write_report(comparisons: Sequence[Comparison], store: Path, out: Path) -> Path:
    """Write one HTML file about comparisons whose runs are in a store; it loads no other file or server.

    Raises:
        StoreError: a run of a comparison is missing from the store or damaged.
    """
    sections = [_section(comparison, store) for comparison in comparisons]
    page_title = " · ".join(dict.fromkeys(comparison.title for comparison in comparisons))
    return write_page("report.html.j2", {"title": page_title, "sections": sections}, out)


@dataclass(frozen=True)
class _View:
    """A comparison and its runs; `best` is the row, other than the baseline, with the best validation macro F1."""

    comparison: Comparison
    paired: Paired
    best: str

    @property
    def base(self) -> str:
        return self.comparison.baseline

    @property
    def first(self) -> RunRecord:
        return self.paired.records[self.base][0]


def _section(comparison: Comparison, store: Path) -> dict[str, Any]:
    paired = load(store, comparison.rows, comparison.role)
    others = [name for name in comparison.rows if name != comparison.baseline] or [comparison.baseline]
    view = _View(comparison, paired, max(others, key=lambda name: _validation(paired, name)))
    classes = _class_rows(view)
    return {
        "comparison": comparison,
        "rows_words": ROLE_WORDS[comparison.role],
        "is_test": comparison.role == "test",
        "summary": _summary(view),
        "data": view.first.data,
        "best": view.best,
        "best_is_better": _validation(paired, view.best)[0] > _validation(paired, view.base)[0],
        "metrics": [(name, TITLES[name]) for name in comparison.metrics if name != MAIN],
        "table": [_table_row(comparison, name) for name in comparison.rows],
        "changes": {name: _changes(view.first, records[0]) for name, records in paired.records.items()},
        "reasons": reasons_in(comparison),
        "chance": chance_words(comparison),
        "classes": classes,
        "charts": {name: [Markup(svg) for svg in charts] for name, charts in _charts(view, classes).items()},
        "warnings": _warnings(paired),
        "environment": view.first.environment,
        "environments_differ": any(
            r.environment != view.first.environment for rs in paired.records.values() for r in rs
        ),
        "seconds": {name: sum(record.seconds for record in records) for name, records in paired.records.items()},
    }


def _validation(paired: Paired, name: str) -> Preference:
    """Return what rows are ranked by: validation metrics, never test metrics; a row with NaN is last."""
    if not all(run.are_valid for run in paired.predictions[name]):
        return NOTHING
    return mean_preference(paired.records[name])


def _summary(view: _View) -> str:
    by_verdict: dict[str, list[str]] = {BETTER: [], WORSE: [], CANNOT_TELL: []}
    for name in view.comparison.rows:
        if name != view.base:
            verdict = view.comparison.line(name, MAIN)["verdict"]
            by_verdict[verdict if verdict in (BETTER, WORSE) else CANNOT_TELL].append(name)
    parts = [f"{verdict}: {', '.join(f'“{name}”' for name in names)}" for verdict, names in by_verdict.items() if names]
    return f"Macro F1 against “{view.base}” — " + ("; ".join(parts) if parts else "there is no other row") + "."


def _table_row(comparison: Comparison, name: str) -> dict[str, Any]:
    cell, base = comparison.line(name, MAIN), name == comparison.baseline
    others = [comparison.line(name, metric) for metric in comparison.metrics if metric != MAIN]
    return {
        "name": name,
        "is_base": base,
        "value": number(cell["value"]),
        "delta": signed(cell["delta"]),
        "span": f"{signed(cell['low'])} … {signed(cell['high'])}" if math.isfinite(cell["low"]) else "",
        "sd": number(cell["seed_sd"]),
        "verdict": cell["verdict"],
        "settling": settling_words(comparison, name, MAIN),
        "mark": MARKS.get(cell["verdict"], ""),
        "others": [
            {"shown": number(o["value"]) if base else signed(o["delta"]), "mark": MARKS.get(o["verdict"], "")}
            | {"verdict": o["verdict"]}
            for o in others
        ],
    }


def _changes(base: RunRecord, other: RunRecord) -> list[str]:
    return [
        f"{_named(change)}: {f'{change.before} → ' if change.before is not None else ''}{change.after}"
        for change in data_changes(base, other) + option_changes(base, other)
    ]


def _named(change: Change) -> str:
    return f"{change.title} ({change.path})" if change.title else change.path


def _class_rows(view: _View) -> list[ClassRow]:
    """Return F1 per class of the baseline and of the best row, classes with most training rows first."""
    sides = (view.base, view.best)
    resampled = resample(view.paired, view.comparison.resamples, 0, sides)
    return sorted(class_rows(view.paired, sides, resampled.classes), key=lambda row: -row.train)


def _charts(view: _View, classes: Sequence[ClassRow]) -> dict[str, list[str]]:
    names = list(dict.fromkeys((view.base, view.best)))
    cells = [(name, view.comparison.line(name, MAIN)) for name in view.comparison.rows if name != view.base]
    items = [Interval(name, c["delta"], c["low"], c["high"], c["verdict"]) for name, c in cells]
    # Intervals of classes are not corrected for the number of classes, so they get no verdict.
    by_class = [
        Interval(f"{row.name} ({row.support})", row.delta, row.low, row.high) for row in classes if row.support
    ][:MOST_CLASSES]
    data = view.first.data
    return {
        "deltas": [forest_plot(items, f"Macro F1 against {view.base}", "difference of macro F1")] if items else [],
        "classes": [forest_plot(by_class, f"F1 by class: {view.best} against {view.base}", "difference of F1")],
        "reliability": [_reliability(view, name) for name in names],
        "confusion": [_confusion(view, name) for name in names],
        "curves": _curves(view),
        "histogram": [class_histogram(data.class_names, data.train_counts, "Training rows by class")],
    }


def _reliability(view: _View, name: str) -> str:
    predictions = view.paired.predictions[name]
    right = np.concatenate([run.predicted == view.paired.frame.labels for run in predictions])
    after = np.concatenate([run.confidence for run in predictions])
    series = [Reliability("as predicted", after, right)]
    before = np.concatenate([run.confidence_raw for run in predictions])
    if not np.allclose(before, after):
        series = [Reliability("calibrated", after, right), Reliability("before calibration", before, right)]
    return reliability_diagram(series, f"Reliability of {name}, all seeds")


def _confusion(view: _View, name: str) -> str:
    record = view.paired.records[name][0]
    pairs = record.evaluations[view.comparison.role].confusion
    return confusion_matrix(pairs, record.data.class_names, f"Confusion of {name}, seed {record.seed}")


def _curves(view: _View) -> list[str]:
    """Draw loss and validation macro F1 of the first seed for the baseline, the best row and at most two more."""
    names = dict.fromkeys((view.base, view.best, *view.comparison.rows))
    records = {name: view.paired.records[name][0] for name in names}
    shown = dict([(name, record) for name, record in records.items() if record.curve][:4])
    charts = []
    for metric, axis in (("loss", "training loss"), (MAIN, "validation macro F1")):
        values = {n: [math.nan if v is None else v for v in record.curve[metric]] for n, record in shown.items()}
        lines = [Curve(name, values[name], record.epoch) for name, record in shown.items()]
        if lines:
            charts.append(learning_curves(lines, f"{axis.capitalize()} by epoch, seed {view.first.seed}", axis))
    return charts


def _warnings(paired: Paired) -> list[tuple[str, str]]:
    return [
        (name, warning)
        for name, records in paired.records.items()
        if not records[0].members
        for warning in check(RunSpec.model_validate(records[0].full_spec))
    ]
