"""Reliability diagrams of A and B, before and after calibration."""

import math

from frostbench.app.views.formatting import html, piece, side_html
from frostbench.benchmarks.comparison.ab import Pair
from frostbench.benchmarks.comparison.reliability import Bins
from frostbench.benchmarks.report.svg import MUTED, Scale, box, figure, line, mark, path, text

LEFT, TOP, SIDE, FOOT, WIDTH = 44.0, 10.0, 256.0, 44.0, 320.0
FEW = 10
"""A bin with fewer images is a hollow mark and not part of the line, because it is too noisy."""
LOOKS = {"A": ("var(--A)", "circle", ""), "B": ("var(--B)", "diamond", "6 4")}


def reliability_html(pair: Pair) -> str:
    """Return one diagram of A and B, or two (before and after) if either of them was calibrated."""
    calibrated = any(side.before != side.after for side in pair.sides)
    before = {side.name: side.before for side in pair.sides}
    after = {side.name: side.after for side in pair.sides}
    first = {side.name: side.ece_before for side in pair.sides}
    last = {side.name: side.ece for side in pair.sides}
    panels = [_panel("before calibration", before, first), _panel("after calibration", after, last)]
    panels = panels if calibrated else [_panel("no calibration was fitted", after, last)]
    body = [
        '<h3 class="fb-title">Is a confidence of 80 % correct 80 % of the time?</h3>',
        '<p class="fb-sub">Reliability diagram with all seeds pooled. On the dotted line, accuracy equals confidence; '
        "below it, the head is overconfident. Larger marks and the bars below show more images; hollow marks have "
        f"fewer than {FEW}. ECE, the mean distance from the line, is computed per seed and then averaged, like the "
        "metrics in the table, so it differs from the ECE of the pooled marks. "
        f"{_temperatures(pair) if calibrated else ''}</p>",
        f'<div class="fb-panels">{"".join(panels)}</div>',
    ]
    return piece(pair, "reliability", body, "two-panels" if calibrated else "one-panel")


def _temperatures(pair: Pair) -> str:
    if all(t == 1 for side in pair.sides for t in side.temperatures):
        return ""
    parts = []
    for side in pair.sides:
        values = ", ".join(f"{t:.2f}" for t in side.temperatures)
        parts.append(f"{side_html(side.name)}: " + (values if any(t != 1 for t in side.temperatures) else "none"))
    return f"Temperatures by seed: {'; '.join(parts)}."


def _panel(title: str, bins: dict[str, Bins], ece: dict[str, float]) -> str:
    legend = " ".join(f'<span class="fb-nowrap">{side_html(name)}: ECE {_percent(ece[name])}</span>' for name in bins)
    caption = f"<figcaption><strong>{html(title.capitalize())}</strong> {legend}</figcaption>"
    return f'<figure class="fb-panel">{caption}{_drawing(title, bins)}</figure>'


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %" if math.isfinite(value) else "—"


def _drawing(title: str, bins: dict[str, Bins]) -> str:
    across, up = Scale(0, 1, LEFT, WIDTH - 20), Scale(0, 1, TOP + SIDE, TOP)
    diagonal = line(across(0), up(0), across(1), up(1), color="var(--grey)", width=1.5, dash="2 4")
    body = [*_axes(across, up), diagonal]
    most = max((rows for found in bins.values() for rows in found.rows), default=1)
    for number, (name, found) in enumerate(bins.items()):
        body += _series(found, name, number, most, across, up)
    description = "; ".join(
        f"{name}: "
        + ", ".join(
            f"{100 * c:.0f} % confidence, {100 * a:.0f} % accuracy"
            for c, a in zip(f.confidence, f.accuracy, strict=True)
        )
        for name, f in bins.items()
    )
    return figure(body, WIDTH, TOP + SIDE + FOOT + 34, f"Reliability, {title}", description)


def _axes(across: Scale, up: Scale) -> list[str]:
    body, bottom = [], TOP + SIDE + FOOT
    for value in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        body += [line(across(value), up(0), across(value), up(1)), line(across(0), up(value), across(1), up(value))]
        body.append(text(across(value), bottom + 12, f"{100 * value:.0f} %", anchor="middle", size=11))
        body.append(text(LEFT - 5, up(value) + 4, f"{100 * value:.0f}", anchor="end", size=11))
    body.append(text((across(0) + across(1)) / 2, bottom + 29, "confidence", anchor="middle", color=MUTED))
    turned = f'<g transform="translate(12 {(up(0) + up(1)) / 2:.1f}) rotate(-90)">'
    return [*body, turned + text(0, 0, "accuracy, %", anchor="middle", color=MUTED) + "</g>"]


def _series(found: Bins, name: str, number: int, most: int, across: Scale, up: Scale) -> list[str]:
    color, shape, dash = LOOKS[name]
    points = [(across(c), up(a)) for c, a in zip(found.confidence, found.accuracy, strict=True)]
    wide, high = (across(1) - across(0)) / found.of, FOOT - 10
    drawn = []
    for index, rows in zip(found.place, found.rows, strict=True):
        height = high * rows / most
        x = across(index / found.of) + 1 + number * (wide - 2) / 2
        drawn.append(box(x, up(0) + FOOT - 2 - height, (wide - 2) / 2, height, fill=color, opacity=0.9))
    firm = [point for point, rows in zip(points, found.rows, strict=True) if rows >= FEW]
    drawn.append(path(firm, color=color, dash=dash) if firm else "")
    for (x, y), rows in zip(points, found.rows, strict=True):
        size = round(2.5 + 3 * math.sqrt(rows / most), 1)
        drawn.append(mark(x, y, shape, color=color, hollow=rows < FEW, size=size))
    return drawn
