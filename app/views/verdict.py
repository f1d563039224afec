"""The verdict in one sentence, followed by its basis."""

import math

from frostbench.app.views.formatting import (
    METRICS,
    ROLES,
    by_metric,
    count,
    count_noun,
    difference,
    figure_of,
    html,
    interval_words,
    piece,
    side_html,
    winner,
)
from frostbench.benchmarks.comparison.ab import BREAKS, FIXES, MAIN, Pair
from frostbench.benchmarks.comparison.deltas import REASONS
from frostbench.benchmarks.comparison.tables import settling_words

STATES = {"A": "a-better", "B": "b-better", "": "cannot-tell"}


def verdict_html(pair: Pair, metric: str = MAIN) -> str:
    """Return which side is better on one metric, if any, with the interval and the resolution of the comparison."""
    a, b = by_metric(pair)[metric]
    won = winner(str(b["verdict"]))
    unit = " points" if METRICS[metric].is_share else ""
    name = METRICS[metric].name
    result = f"{side_html(won)} is better on {html(name)}" if won else f"Can’t tell on {html(name)}"
    figures = f': <span class="fb-nowrap">B − A = <strong>{difference(metric, b["delta"])}{unit}</strong></span>'
    span = interval_words(metric, b["low"], b["high"])
    sentence = (
        f'<p class="fb-verdict">{_role(pair)}<span>{result}{figures} '
        f'<span class="fb-nowrap">(95 % interval {span})</span></span></p>'
    )
    values = f"{side_html('A')} {figure_of(metric, a['value'])}, {side_html('B')} {figure_of(metric, b['value'])}"
    basis = [
        values + "." + _why(str(b["verdict"])),
        _basis(pair),
        _resolution(pair, metric, b),
        _settling(pair, metric),
    ]
    body = [
        f'<div class="fb-said fb-said-{STATES[won]}">',
        sentence,
        f'<p class="fb-sub">{" ".join(text for text in basis if text)}</p>',
        "</div>",
    ]
    return piece(pair, "verdict", body, STATES[won])


def _role(pair: Pair) -> str:
    role = pair.comparison.role
    return f'<span class="fb-chip fb-chip-{html(role)}">{html(ROLES[role])} images</span> '


def _why(verdict: str) -> str:
    """Return why there is no verdict although the interval excludes 0; empty if that is not the case."""
    reasons = [why for word, why in REASONS.items() if verdict.endswith(f"({word})")]
    return f" The interval excludes 0, but {html(reasons[0])}." if reasons else ""


def _basis(pair: Pair) -> str:
    comparison, flips = pair.comparison, pair.flips.rows
    seeds = ", ".join(map(str, comparison.seeds))
    is_grouped = comparison.n_groups != comparison.n_rows
    groups = f" in {count_noun(comparison.n_groups, 'group')}" if is_grouped else ""
    mean = "" if len(comparison.seeds) == 1 else " (mean over seeds)"
    return (
        f"Compared on the same {count_noun(comparison.n_rows, ROLES[comparison.role] + ' image')}{groups}, "
        f"paired bootstrap over {'groups' if is_grouped else 'images'}, "
        f"{'seed' if len(comparison.seeds) == 1 else 'seeds'} {seeds}. "
        f"B fixes {count_noun(flips[FIXES], 'image')} and breaks {count(flips[BREAKS])}{mean}."
    )


def _resolution(pair: Pair, metric: str, line: dict[str, float]) -> str:
    half = (line["high"] - line["low"]) / 2
    if not math.isfinite(half):
        known = math.isfinite(line["delta"])
        return "There are too few groups of images for an interval." if known else "One of the runs has no value."
    if half == 0:
        return "A and B have the same value on every resample of the images, with every seed."
    smallest = f"{100 * half:.1f} points" if METRICS[metric].is_share else f"{half:.3f}"
    seeds = "this seed" if len(pair.comparison.seeds) == 1 else "these seeds"
    return f"Differences below about {smallest} cannot be detected with these images and {seeds}."


def _settling(pair: Pair, metric: str) -> str:
    """Return what would confirm an uncertain difference, if known."""
    requirement = settling_words(pair.comparison, "B", metric)
    return f"If the difference is as large as it looks, {html(requirement)} would confirm it." if requirement else ""
