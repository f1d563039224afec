"""Changes of F1 per class with their intervals, with small classes marked."""

import math
from collections.abc import Sequence
from typing import Literal

from frostbench.app.views.delta_table import WIDTH, interval_svg
from frostbench.app.views.formatting import change, count, count_noun, html, name_html, piece, scrolled
from frostbench.benchmarks.comparison.ab import Pair
from frostbench.benchmarks.comparison.class_deltas import ClassRow
from frostbench.benchmarks.report.svg import Scale

MOST = 30
"""Maximum number of classes in the table; the others are summarised in a sentence."""
Order = Literal["change", "training"]


def per_class_html(pair: Pair, order: Order = "change") -> str:
    """Return a forest plot of the differences per class, ordered by change or by number of training images."""
    ranked = sorted(pair.classes, key=_by_training if order == "training" else _by_change)
    shown, rest = ranked[:MOST], ranked[MOST:]
    ends = [abs(v) for row in shown if row.support for v in (row.low, row.high, row.delta) if math.isfinite(v)]
    reach = max(ends, default=0.0) or 1.0
    rows = "".join(_row(row, Scale(-reach, reach, 6, WIDTH - 6)) for row in shown)
    head = (
        '<thead><tr><th scope="col">Class</th><th scope="col" class="fb-num">images</th>'
        '<th scope="col"><span class="fb-ends"><span>← A better</span><span>B better →</span></span></th>'
        '<th scope="col" class="fb-num">B − A</th>'
        '<th scope="col" class="fb-num">F1, A → B</th></tr></thead>'
    )
    ordering = "most training images first" if order == "training" else "largest change first"
    body = [
        '<h3 class="fb-title">Change per class</h3>',
        f'<p class="fb-sub">F1 in per cent, B − A in points, 95 % interval; {ordering}. Pale rows have too few images '
        "for a conclusion. Intervals are not corrected for the number of classes.</p>",
        scrolled(f'<table class="fb-table fb-tight">{head}<tbody>{rows}</tbody></table>', "Change per class"),
        _rest_html(rest),
    ]
    return piece(pair, "per-class", body, order)


def _by_change(row: ClassRow) -> tuple[bool, float]:
    """Sort key: largest change first, classes without images or a finite difference last."""
    known = bool(row.support) and math.isfinite(row.delta)
    return not known, -abs(row.delta) if known else 0.0


def _by_training(row: ClassRow) -> tuple[bool, float]:
    return not row.support, -row.train


def _row(row: ClassRow, scale: Scale) -> str:
    pale = " fb-pale" if row.thin else ""
    background = ' <span class="fb-hint">background</span>' if row.background else ""
    title = f"{count_noun(row.train, 'training image')}, {count(row.support)} here"
    cells = [
        f'<th scope="row">{name_html(row.name)}{background}</th>',
        f'<td class="fb-num" title="{html(title)}">{count(row.support)}</td>',
    ]
    if not row.support:
        cells.append(
            '<td class="fb-hint">no images here</td><td class="fb-num">—</td>' + '<td class="fb-num">—</td>' * 2
        )
    else:
        won = "B" if row.low > 0 else "A" if row.high < 0 else ""
        cells.append(f"<td>{interval_svg(row.delta, row.low, row.high, scale, won)}</td>")
        cells.append(f'<td class="fb-num fb-strong">{change(100 * row.delta)}</td>')
        cells.append(f'<td class="fb-num">{_percent(row.f1[0])} → {_percent(row.f1[1])}</td>')
    state = "empty" if not row.support else "thin" if row.thin else "shown"
    return f'<tr class="fb-class{pale}" data-class="{html(row.name)}" data-state="{state}">{"".join(cells)}</tr>'


def _percent(value: float) -> str:
    return f"{100 * value:.1f}" if math.isfinite(value) else "—"


def _rest_html(rest: Sequence[ClassRow]) -> str:
    """Return one sentence about the classes that are not in the table."""
    if not rest:
        return ""
    deltas = [100 * row.delta for row in rest if row.support and math.isfinite(row.delta)]
    up, down = sum(d > 0 for d in deltas), sum(d < 0 for d in deltas)
    empty = len(rest) - len(deltas)
    span = f", between {change(min(deltas))} and {change(max(deltas))} points" if deltas else ""
    without = f"; {count(empty)} without images here" if empty else ""
    return (
        f'<p class="fb-sub" data-testid="per-class-rest">{count_noun(len(rest), "more class")}: {count(up)} up, '
        f"{count(down)} down, {count(len(deltas) - up - down)} unchanged{span}{without}.</p>"
    )
