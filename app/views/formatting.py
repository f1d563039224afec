"""Formatting of numbers and names, and the frame around every piece of a view."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from types import MappingProxyType

from frostbench.benchmarks.comparison.ab import Pair
from frostbench.benchmarks.comparison.compare import BETTER, WORSE
from frostbench.benchmarks.comparison.metrics import HIGHER_IS_BETTER
from frostbench.benchmarks.report.svg import printable, shortened
from frostbench.benchmarks.settings.nouns import noun_for

ROLES = MappingProxyType({"select": "validation", "test": "test"})
GAP = "\u202f"
"""Narrow no-break space, the thousands separator."""


@dataclass(frozen=True)
class Metric:
    """Display name and short explanation of a metric; a share is shown in per cent and its differences in points."""

    name: str
    hint: str
    is_share: bool = True


METRICS = MappingProxyType(
    {
        "macro_f1_fg": Metric("Macro F1", "all classes weigh the same"),
        "weighted_f1_fg": Metric("Weighted F1", "classes weighted by number of images"),
        "macro_precision_fg": Metric("Macro precision", "share of a class's predictions that are correct"),
        "macro_recall_fg": Metric("Macro recall", "share of a class's images that are found"),
        "accuracy": Metric("Accuracy", "share of images predicted correctly"),
        "balanced_accuracy": Metric("Balanced accuracy", "macro recall including background"),
        "recall_many": Metric("Recall, common classes", "more than 100 training images"),
        "recall_medium": Metric("Recall, medium classes", "20 to 100 training images"),
        "recall_few": Metric("Recall, rare classes", "fewer than 20 training images"),
        "nll": Metric("Log loss", "NLL of the true class", is_share=False),
        "brier": Metric("Brier score", "squared error of the probabilities", is_share=False),
        "ece": Metric("Calibration error", "ECE: gap between confidence and accuracy"),
    }
)


def html(text: object) -> str:
    """Escape text for use between tags and in quoted attributes; required for every name that is not ours."""
    return escape(printable(str(text)), quote=True)


def name_html(name: str, most: int = 24) -> str:
    """Return a name cut to a length, with the full name as tooltip."""
    return f'<bdi title="{html(name)}">{html(shortened(printable(name), most))}</bdi>'


def count(value: float, digits: int = 1) -> str:
    r"""Format a count, such as 2 480 or 2.3; a mean over seeds need not be whole.

    >>> count(2480), count(2.25)
    ('2\u202f480', '2.2')
    """
    return f"{value:,.{0 if float(value).is_integer() else digits}f}".replace(",", GAP)


def count_noun(value: float, noun: str) -> str:
    """Return a count with its noun.

    >>> count_noun(1, "image"), count_noun(3, "class")
    ('1 image', '3 classes')
    """
    return f"{count(value)} {noun_for(value, noun)}"


def change(value: float, digits: int = 1) -> str:
    """Format a difference with its sign, using a true minus.

    >>> change(1.94), change(-0.04), change(-3, 0)
    ('+1.9', '0.0', '−3')
    """
    if not math.isfinite(value):
        return "—"
    text = f"{value:+.{digits}f}".replace("-", "−")
    return text if any(c in "123456789" for c in text) else text[1:]


def figure_of(metric: str, value: float) -> str:
    """Format the value of a metric."""
    if not math.isfinite(value):
        return "—"
    return f"{100 * value:.1f} %" if METRICS[metric].is_share else f"{value:.3f}"


def difference(metric: str, value: float) -> str:
    """Format a difference of a metric without its unit."""
    return change(100 * value) if METRICS[metric].is_share else change(value, 3)


def interval_words(metric: str, low: float, high: float) -> str:
    """Format an interval, such as "+0.6 to +3.1"."""
    return f"{difference(metric, low)} to {difference(metric, high)}" if math.isfinite(high - low) else "—"


def direction(metric: str) -> str:
    """Return whether higher or lower is better, as text."""
    return "higher is better" if HIGHER_IS_BETTER[metric] else "lower is better"


def winner(verdict: str) -> str:
    """Return the better side, B or A, by the verdict on row B; empty if there is none."""
    return {BETTER: "B", WORSE: "A"}.get(verdict, "")


def side_html(name: str) -> str:
    """Return the name of a side with its mark, so that colour is never the only cue."""
    return f'<span class="fb-key fb-{name.lower()}" aria-hidden="true">{"●" if name == "A" else "◆"}</span>&nbsp;{name}'


def runs_of(pair: Pair) -> str:
    """Return the run keys of a pair, A's first, for the attribute data-run of every piece."""
    return " ".join(",".join(side.keys) for side in pair.sides)


def piece(pair: Pair, testid: str, body: Sequence[str], state: str = "") -> str:
    """Return a section of the page with data attributes that identify it for tests and other programs."""
    data = {"testid": testid, "role": pair.comparison.role, "run": runs_of(pair)} | ({"state": state} if state else {})
    attributes = " ".join(f'data-{key}="{html(value)}"' for key, value in data.items())
    return f'<section class="fb fb-piece" {attributes}>{"".join(body)}</section>'


def scrolled(table: str, label: str) -> str:
    """Wrap a table in a box that scrolls, also by keyboard."""
    return f'<div class="fb-scroll" tabindex="0" role="region" aria-label="{html(label)}">{table}</div>'


def by_metric(pair: Pair) -> dict[str, tuple[dict[str, float], dict[str, float]]]:
    """Return the lines of A and B in the comparison's table, by metric."""
    lines: dict[str, dict[str, dict[str, float]]] = {}
    for line in pair.comparison.table.to_dict("records"):
        lines.setdefault(str(line["metric"]), {})[str(line["row"])] = {str(key): value for key, value in line.items()}
    return {metric: (sides["A"], sides["B"]) for metric, sides in lines.items()}
