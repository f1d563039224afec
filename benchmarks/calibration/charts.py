"""Charts of a calibration report as inline SVG: reliability with intervals, risk against coverage, gaps by class."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from frostbench.benchmarks.calibration.classes import ClassCalibration, Confidences
from frostbench.benchmarks.calibration.measured import CalibrationReport
from frostbench.benchmarks.calibration.resampled import Draws, binned_accuracy
from frostbench.benchmarks.report.charts import (
    WIDTH,
    Interval,
    Reliability,
    forest_plot,
    grid,
    legend,
    reliability_diagram,
)
from frostbench.benchmarks.report.class_charts import MOST_CLASSES
from frostbench.benchmarks.report.svg import DASHES, SERIES, Scale, figure, path
from frostbench.training.metrics.bins import Floats, bin_of
from frostbench.training.metrics.classification import ECE_BINS
from frostbench.training.metrics.selective import risk_coverage

MOST_CURVES = len(SERIES)
COVERAGES = np.arange(1, 101) / 100


@dataclass(frozen=True)
class RiskCurve:
    """Mean risk over the seeds at coverages of 1, 2 … 100 %."""

    name: str
    risk: Floats


def reliability_chart(sides: Mapping[str, Confidences], names: Mapping[str, str], row: str, draws: Draws) -> str:
    """Draw accuracy by confidence bin, all seeds of a row pooled, one series per side, with 95 % intervals.

    Args:
        sides: predictions of the row's runs by side.
        names: sides to draw, and their labels.
        row: name of the row.
        draws: resamples of the evaluated rows.
    """
    series = []
    for side, name in names.items():
        runs = sides[side]
        low, high = binned_accuracy(list(bin_of(runs.confidences)), list(runs.right * 1.0), ECE_BINS, draws)
        ends = {i: (float(low[i]), float(high[i])) for i in range(ECE_BINS)}
        series.append(Reliability(name, runs.confidences.ravel(), runs.right.ravel(), ends))
    return reliability_diagram(series, f"Reliability of {row}, all seeds", ECE_BINS)


def risk_curve(name: str, runs: Confidences) -> RiskCurve:
    """Compute the risk–coverage curve of one row."""
    curves = [risk_coverage(c, r) for c, r in zip(runs.confidences, runs.right, strict=True)]
    return RiskCurve(name, np.array([[curve.risk_at(at) for at in COVERAGES] for curve in curves]).mean(0))


def risk_coverage_chart(curves: Sequence[RiskCurve], title: str) -> str:
    """Draw risk against coverage, at most four lines; lower is better."""
    left, top, bottom = 52.0, 12.0, 212.0
    highest = max((float(curve.risk.max()) for curve in curves), default=0.0) or 0.01
    across, up = Scale(0, 1, left, WIDTH - 14), Scale(0, 1.08 * highest, bottom, top)
    body = grid(across, up, "coverage: share of images predicted", "risk: error rate among them", bottom)
    for number, curve in enumerate(curves):
        points = [(across(c), up(r)) for c, r in zip(COVERAGES, curve.risk, strict=True)]
        body.append(path(points, color=SERIES[number], dash=DASHES[number]))
    body += legend([curve.name for curve in curves], left, bottom + 46, shapes=False)
    description = "; ".join(
        f"{c.name}: risk {c.risk[49]:.3f} at coverage 0.5, {c.risk[79]:.3f} at 0.8, {c.risk[-1]:.3f} at 1"
        for c in curves
    )
    return figure(body, WIDTH, bottom + 46 + 16 * len(curves), title, description)


def class_gaps(classes: Sequence[ClassCalibration], title: str) -> str:
    """Draw mean confidence minus accuracy by class, with intervals, for the classes predicted most often."""
    predicted = [c for c in classes if math.isfinite(c.gap)]
    shown = sorted(predicted, key=lambda c: -c.predicted)[:MOST_CLASSES]
    items = [Interval(f"{c.name} ({c.predicted:.0f})", c.gap, c.low, c.high) for c in shown]
    return forest_plot(items, title, "confidence − accuracy", None)


def curves_of(report: CalibrationReport, side: str) -> list[RiskCurve]:
    """Return the curves of the baseline, the best row and at most two more."""
    names = dict.fromkeys((report.baseline, report.best, *report.rows))
    available = [(name, report.confidences[name][side]) for name in names if side in report.confidences[name]]
    return [risk_curve(name, confidences) for name, confidences in available[:MOST_CURVES]]
