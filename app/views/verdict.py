"""The verdict: one sentence, and below it what it rests on."""

import math

from frostbench.app.views.words import (
    METRICS,
    ROLES,
    by_metric,
    count,
    difference,
    figure_of,
    html,
    interval_words,
    piece,
    things,
    who,
    winner,
)
from frostbench.benchmarks.comparison.ab import BREAKS, FIXES, MAIN, Pair
from frostbench.benchmarks.comparison.deltas import REASONS
from frostbench.benchmarks.comparison.tables import settling_words

STATES = {"A": "a-better", "B": "b-better", "": "cannot-tell"}


def verdict_html(pair: Pair, metric: str = MAIN) -> str:
    """B better, A better or can't tell on one metric, with the interval and what the images can and cannot show."""
    a, b = by_metric(pair)[metric]
    won = winner(str(b["verdict"]))
    unit = " points" if METRICS[metric].is_share else ""
    name = METRICS[metric].name
    said = f"{who(won)} is better on {html(name)}" if won else f"Can’t tell on {html(name)}"
    figures = f': <span class="fb-nowrap">B − A = <strong>{difference(metric, b["delta"])}{unit}</strong></span>'
    span = interval_words(metric, b["low"], b["high"])
    sentence = (
        f'<p class="fb-verdict">{_role(pair)}<span>{said}{figures} '
        f'<span class="fb-nowrap">(95 % interval {span})</span></span></p>'
    )
    values = f"{who('A')} {figure_of(metric, a['value'])}, {who('B')} {figure_of(metric, b['value'])}"
    told = [values + "." + _why(str(b["verdict"])), _basis(pair), _resolution(pair, metric, b), _settling(pair, metric)]
    body = [
        f'<div class="fb-said fb-said-{STATES[won]}">',
        sentence,
        f'<p class="fb-sub">{" ".join(words for words in told if words)}</p>',
        "</div>",
    ]
    return piece(pair, "verdict", body, STATES[won])


def _role(pair: Pair) -> str:
    role = pair.comparison.role
    return f'<span class="fb-chip fb-chip-{html(role)}">{html(ROLES[role])} images</span> '


def _why(verdict: str) -> str:
    """Why there is no verdict although the interval leaves out 0."""
    found = [why for word, why in REASONS.items() if verdict.endswith(f"({word})")]
    return f" The interval leaves out 0, but {html(found[0])}." if found else ""


def _basis(pair: Pair) -> str:
    made, flips = pair.comparison, pair.flips.rows
    seeds = ", ".join(map(str, made.seeds))
    is_grouped = made.n_groups != made.n_rows
    groups = f" in {things(made.n_groups, 'group')}" if is_grouped else ""
    each = "" if len(made.seeds) == 1 else " (mean over seeds)"
    return (
        f"Same {things(made.n_rows, ROLES[made.role] + ' image')}{groups}, "
        f"paired bootstrap over {'groups' if is_grouped else 'images'}, "
        f"{'seed' if len(made.seeds) == 1 else 'seeds'} {seeds}. "
        f"B fixes {things(flips[FIXES], 'image')} and breaks {count(flips[BREAKS])}{each}."
    )


def _resolution(pair: Pair, metric: str, line: dict[str, float]) -> str:
    half = (line["high"] - line["low"]) / 2
    if not math.isfinite(half):
        known = math.isfinite(line["delta"])
        return "The images are of too few groups for an interval." if known else "One of the runs gave no figures."
    if half == 0:
        return "On this metric A and B gave the same on every resample of the images, with every seed."
    shown = f"{100 * half:.1f} points" if METRICS[metric].is_share else f"{half:.3f}"
    seeds = "this seed" if len(pair.comparison.seeds) == 1 else "these seeds"
    return f"Differences below about {shown} can’t be seen with these images and {seeds}."


def _settling(pair: Pair, metric: str) -> str:
    """What would settle a difference that cannot be told, where that is known."""
    words = settling_words(pair.comparison, "B", metric)
    return f"Were it as large as it looks, {html(words)} would settle it." if words else ""
