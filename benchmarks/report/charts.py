"""Charts as inline SVG, for reports and pages: pure functions from data to SVG text."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap

import numpy as np

from frostbench.benchmarks.comparison.frame import Bools, Floats
from frostbench.benchmarks.comparison.reliability import Bins, bins_of
from frostbench.benchmarks.report.svg import (
    DASHES,
    INK,
    MUTED,
    SERIES,
    SHAPES,
    Scale,
    box,
    figure,
    line,
    mark,
    path,
    printable,
    shortened,
    text,
    ticks,
)
from frostbench.benchmarks.settings.nouns import with_noun

WIDTH = 420
"""Width in pixels; fits a phone screen without scaling."""


@dataclass(frozen=True)
class Interval:
    """A value with its interval.

    Attributes:
        name: label of the value.
        value: point estimate.
        low: lower end.
        high: upper end.
        verdict: better, worse, or any other text for neither.
    """

    name: str
    value: float
    low: float
    high: float
    verdict: str = ""


def forest_plot(items: Sequence[Interval], title: str, axis: str, right_is_better: bool | None = True) -> str:
    """Draw differences with their intervals, one below the other, around a vertical line at 0.

    Better is a filled triangle pointing up, worse a filled triangle pointing down, anything else a hollow circle. Pass
    None for `right_is_better` if neither direction is better.
    """
    left, top = 160.0, 12.0
    names = [_wrapped(item.name) for item in items]
    heights = [max(24.0, 13.0 * len(lines) + 7) for lines in names]
    bottom = top + sum(heights)
    ends = [v for item in items for v in (item.low, item.high, item.value) if math.isfinite(v)] + [0.0]
    margin = 0.06 * ((max(ends) - min(ends)) or 0.1)
    x_of = Scale(min(ends) - margin, max(ends) + margin, left, WIDTH - 12)
    body = [line(x_of(v), top, x_of(v), bottom) for v in ticks(x_of.low, x_of.high)]
    body += [text(x_of(v), bottom + 16, f"{v:+g}" if v else "0", anchor="middle") for v in ticks(x_of.low, x_of.high)]
    body.append(line(x_of(0), top - 4, x_of(0), bottom + 3, color=INK, width=1.5))
    for number, (item, lines) in enumerate(zip(items, names, strict=True)):
        y = top + sum(heights[:number]) + heights[number] / 2
        first = y + 4 - 6.5 * (len(lines) - 1)
        body += [text(left - 8, first + 13 * i, words, anchor="end") for i, words in enumerate(lines)]
        body.append(_forest_row(item, x_of, y))
    toward = {True: " (right is better)", False: " (left is better)", None: ""}[right_is_better]
    body.append(text((left + WIDTH) / 2, bottom + 34, axis + toward, anchor="middle", color=MUTED))
    description = "; ".join(_interval_words(item) for item in items)
    return figure(body, WIDTH, bottom + 44, title, description)


def _interval_words(item: Interval) -> str:
    if not math.isfinite(item.value):
        return f"{item.name} has no value"
    return f"{item.name} {item.value:+.3f} [{item.low:+.3f}, {item.high:+.3f}] {item.verdict}".strip()


def _wrapped(name: str) -> list[str]:
    """Wrap a name at 22 characters, in at most three lines, which hold 40 characters wherever the words break."""
    return wrap(printable(name), 22, max_lines=3, placeholder="…") or [""]


def _forest_row(item: Interval, x_of: Scale, y: float) -> str:
    shape, color = {"better": ("triangle", SERIES[2]), "worse": ("down", SERIES[1])}.get(
        item.verdict, ("circle", MUTED)
    )
    parts = []
    if math.isfinite(item.low) and math.isfinite(item.high):
        parts.append(line(x_of(item.low), y, x_of(item.high), y, color=color, width=2.5))
        parts += [line(x_of(end), y - 4, x_of(end), y + 4, color=color, width=2) for end in (item.low, item.high)]
    if math.isfinite(item.value):
        parts.append(mark(x_of(item.value), y, shape, color=color, hollow=shape == "circle"))
    return "".join(parts)


@dataclass(frozen=True)
class Reliability:
    """Confidence and correctness of one set of predictions.

    Attributes:
        name: label of the series.
        confidence: [N] confidence in the predicted class.
        right: [N] whether the prediction is right.
        ends: bin index to the interval of the bin's accuracy; intervals that are not finite are not drawn.
    """

    name: str
    confidence: Floats
    right: Bools
    ends: Mapping[int, tuple[float, float]] = field(default_factory=dict)


def reliability_diagram(series: Sequence[Reliability], title: str, bins: int = 15) -> str:
    """Draw accuracy against confidence in bins of equal width, closed on the right, and a histogram of rows below.

    A perfectly calibrated model lies on the diagonal. Marks grow with the number of rows in the bin; rows whose
    confidence is not finite are ignored.
    """
    binned = [bins_of(s.confidence, s.right, bins) for s in series]
    left, top, side, foot = 46.0, 12.0, 250.0, 60.0
    across, up = Scale(0, 1, left, WIDTH - 14), Scale(0, 1, top + side, top)
    body = grid(across, up, "confidence", "accuracy", top + side + foot)
    body.append(line(across(0), up(0), across(1), up(1), color=MUTED, dash="4 4"))
    for number, filled in enumerate(binned):
        body += _ends(series[number], filled, number, len(series), across, up)
        body += _bins(filled, number, len(series), across, up, foot)
    body += legend([s.name for s in series], left, top + side + foot + 44)
    body.append(text(left - 6, top + side + 36, "rows", anchor="end", color=MUTED))
    description = "; ".join(
        f"{s.name}: mean confidence {np.average(b.confidence, weights=b.rows):.3f}, "
        f"accuracy {np.average(b.accuracy, weights=b.rows):.3f}"
        for s, b in zip(series, binned, strict=True)
        if b.rows
    )
    return figure(body, WIDTH, top + side + foot + 44 + 16 * len(series), title, description)


def _bins(bins: Bins, number: int, of: int, across: Scale, up: Scale, foot: float) -> list[str]:
    color, shape, most = SERIES[number], SHAPES[number], max(bins.rows, default=1)
    points = [(across(a), up(b)) for a, b in zip(bins.confidence, bins.accuracy, strict=True)]
    drawn = [path(points, color=color, dash=DASHES[number])]
    for (x, y), rows in zip(points, bins.rows, strict=True):
        drawn.append(mark(x, y, shape, color=color, size=3 + 4 * math.sqrt(rows / most)))
    wide = (across(1) - across(0)) / bins.of
    for index, rows in zip(bins.place, bins.rows, strict=True):
        height = (foot - 26) * rows / most
        x = across(index / bins.of) + 1 + number * (wide - 2) / of
        drawn.append(box(x, up(0) + foot - 4 - height, (wide - 2) / of, height, fill=color, opacity=0.85))
    return drawn


def _ends(series: Reliability, bins: Bins, number: int, of: int, across: Scale, up: Scale) -> list[str]:
    aside = 3.0 * (number - (of - 1) / 2)
    drawn = []
    for index, confidence in zip(bins.place, bins.confidence, strict=True):
        low, high = series.ends.get(index, (math.nan, math.nan))
        if math.isfinite(low) and math.isfinite(high):
            x = across(confidence) + aside
            drawn.append(line(x, up(low), x, up(high), color=SERIES[number], width=1.5))
    return drawn


def grid(across: Scale, up: Scale, x_name: str, y_name: str, label_y: float) -> list[str]:
    """Draw axes with round tick values; the labels of the horizontal axis are placed at label_y."""
    body = []
    for v in ticks(up.low, up.high):
        body += [
            line(across.start, up(v), across.end, up(v)),
            text(across.start - 6, up(v) + 4, f"{v:g}", anchor="end"),
        ]
    for v in ticks(across.low, across.high):
        body.append(text(across(v), label_y + 12, f"{v:g}", anchor="middle"))
    middle = (across.start + across.end) / 2
    body.append(text(middle, label_y + 28, x_name, anchor="middle", color=MUTED))
    turned = f'<g transform="translate(12 {(up.start + up.end) / 2:.1f}) rotate(-90)">'
    return [*body, turned + text(0, 0, y_name, anchor="middle", color=MUTED) + "</g>"]


def legend(names: Sequence[str], x: float, y: float, shapes: bool = True) -> list[str]:
    """Draw the names of series, each with its line and, if `shapes` is set, its mark."""
    drawn = []
    for number, name in enumerate(names):
        row = y + 16 * number
        drawn.append(line(x, row, x + 22, row, color=SERIES[number], width=2, dash=DASHES[number]))
        if shapes:
            drawn.append(mark(x + 11, row, SHAPES[number], color=SERIES[number], size=4))
        drawn.append(text(x + 28, row + 4, shortened(name, 34), color=SERIES[number]))
    return drawn


@dataclass(frozen=True)
class Curve:
    """A line of values over epochs from 1; `best` is the epoch to mark, or 0 for none."""

    name: str
    values: Sequence[float]
    best: int = 0


def learning_curves(curves: Sequence[Curve], title: str, axis: str) -> str:
    """Draw values by epoch, at most four lines; a diamond marks the epoch that was kept."""
    left, top, bottom = 52.0, 12.0, 212.0
    values = [v for curve in curves for v in curve.values if math.isfinite(v)] or [0.0]
    low, high = min(values), max(values)
    pad = 0.05 * ((high - low) or 1.0)
    across = Scale(1, max(2, *(len(curve.values) for curve in curves)), left, WIDTH - 12)
    up = Scale(low - pad, high + pad, bottom, top)
    body = grid(across, up, "epoch", axis, bottom)
    for number, curve in enumerate(curves):
        points = [(across(i), up(v)) for i, v in enumerate(curve.values, start=1) if math.isfinite(v)]
        body.append(path(points, color=SERIES[number], dash=DASHES[number]))
        if 0 < curve.best <= len(curve.values):
            value = curve.values[curve.best - 1]
            if math.isfinite(value):
                body.append(mark(across(curve.best), up(value), "diamond", color=SERIES[number], size=5))
    body += legend([curve.name for curve in curves], left, bottom + 46, shapes=False)
    description = "; ".join(
        f"{c.name}: {with_noun(len(c.values), 'epoch')}, {_last(c.values)}, kept {c.best}" for c in curves
    )
    return figure(body, WIDTH, bottom + 46 + 16 * len(curves), title, description)


def _last(values: Sequence[float]) -> str:
    return f"last {values[-1]:.4g}" if values and math.isfinite(values[-1]) else "last value missing"
