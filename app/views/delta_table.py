"""The table of differences: one line per metric, with a small chart of its interval."""

import math
from collections.abc import Mapping

from frostbench.app.views.formatting import (
    METRICS,
    by_metric,
    difference,
    direction,
    figure_of,
    html,
    interval_words,
    piece,
    scrolled,
    side_html,
    winner,
)
from frostbench.benchmarks.comparison.ab import Pair
from frostbench.benchmarks.comparison.deltas import REASONS
from frostbench.benchmarks.comparison.tables import chance_words
from frostbench.benchmarks.report.svg import Scale, line, mark

WIDTH, HEIGHT = 150.0, 18.0
INK = "var(--fb-line)"
LOOKS = {"A": ("circle", "var(--A)"), "B": ("diamond", "var(--B)"), "": ("circle", "var(--grey)")}
VERDICTS = {"B": "▲ B better", "A": "▼ A better", "": "≈ can’t tell"}


def delta_table_html(pair: Pair) -> str:
    """Return a table of all metrics: A, B, the difference, its interval and the verdict."""
    lines = by_metric(pair)
    shares = [b for metric, (_, b) in lines.items() if METRICS[metric].is_share]
    rows = []
    for metric, (a, b) in lines.items():
        reach = _reach(shares) if METRICS[metric].is_share else _reach([b])
        rows.append(_row(metric, a, b, Scale(-reach, reach, 6, WIDTH - 6)))
    head = (
        f'<thead><tr><th scope="col">Metric</th><th scope="col" class="fb-num">{side_html("A")}</th>'
        f'<th scope="col" class="fb-num">{side_html("B")}</th><th scope="col" class="fb-num">B − A</th>'
        '<th scope="col"><span class="fb-ends"><span>below 0</span><span>above 0</span></span></th>'
        '<th scope="col" class="fb-num">95 % interval</th><th scope="col">Verdict</th></tr></thead>'
    )
    table = f'<table class="fb-table fb-stack">{head}<tbody>{"".join(rows)}</tbody></table>'
    body = [
        '<h3 class="fb-title">All metrics</h3>',
        scrolled(table, "Differences between A and B"),
        '<p class="fb-sub">Differences of percentages are in percentage points and share one scale.'
        f"{_reasons(lines)} {html(chance_words(pair.comparison))}</p>",
    ]
    return piece(pair, "delta-table", body)


def _reach(lines: list[dict[str, float]]) -> float:
    ends = [abs(line[end]) for line in lines for end in ("low", "high", "delta") if math.isfinite(line[end])]
    return max(ends, default=0.0) or 1.0


def _row(metric: str, a: Mapping[str, float], b: Mapping[str, float], scale: Scale) -> str:
    won, shown = winner(str(b["verdict"])), METRICS[metric]
    tint = f" fb-won-{won.lower()}" if won else ""
    unit = '<span class="fb-unit"> pts</span>' if shown.is_share and math.isfinite(b["delta"]) else ""
    reason = [word for word in REASONS if str(b["verdict"]).endswith(f"({word})")]
    note = f' <span class="fb-hint">({html(reason[0])})</span>' if reason else ""
    hint = f'<span class="fb-hint fb-block">{html(shown.hint)}; {direction(metric)}</span>'
    return (
        f'<tr data-metric="{html(metric)}" data-state="{won.lower() or "none"}">'
        f'<th scope="row">{html(shown.name)} {hint}</th>'
        f'<td class="fb-num" data-label="A">{figure_of(metric, a["value"])}</td>'
        f'<td class="fb-num" data-label="B">{figure_of(metric, b["value"])}</td>'
        f'<td class="fb-num fb-strong{tint}" data-label="B − A">{difference(metric, b["delta"])}{unit}</td>'
        f"<td>{interval_svg(b['delta'], b['low'], b['high'], scale, won)}</td>"
        f'<td class="fb-num">{interval_words(metric, b["low"], b["high"])}</td>'
        f'<td class="fb-nowrap{tint}">{VERDICTS[won]}{note}</td></tr>'
    )


def interval_svg(value: float, low: float, high: float, scale: Scale, won: str) -> str:
    """Draw a difference and its interval around a line at 0; hidden from screen readers, which read the cells."""
    shape, color = LOOKS[won]
    middle = HEIGHT / 2
    body = [line(scale(0), 1, scale(0), HEIGHT - 1, color=INK)]
    if math.isfinite(high - low):
        body.append(line(scale(low), middle, scale(high), middle, color=color, width=2.5))
    if math.isfinite(value):
        body.append(mark(scale(value), middle, shape, color=color, hollow=not won, size=4))
    size = f'width="{WIDTH:.0f}" height="{HEIGHT:.0f}" viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}"'
    return f'<svg class="fb-strip" {size} aria-hidden="true">{"".join(body)}</svg>'


def _reasons(lines: Mapping[str, tuple[dict[str, float], dict[str, float]]]) -> str:
    verdicts = {str(b["verdict"]) for _, b in lines.values()}
    used = [f" ({word}): {why}." for word, why in REASONS.items() if any(v.endswith(f"({word})") for v in verdicts)]
    return html("".join(used))
