"""Numbers and names as the page writes them, and the frame around every piece."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from types import MappingProxyType

from frostbench.benchmarks.comparison.ab import Pair
from frostbench.benchmarks.comparison.compare import BETTER, WORSE
from frostbench.benchmarks.comparison.metrics import HIGHER_IS_BETTER
from frostbench.benchmarks.report.svg import printable, shortened

ROLES = MappingProxyType({"select": "validation", "test": "test"})
GAP = "\u202f"
"""Narrow space between thousands."""


@dataclass(frozen=True)
class Metric:
    """A metric in plain words; a share is written in per cent and its differences in points."""

    name: str
    hint: str
    is_share: bool = True


METRICS = MappingProxyType(
    {
        "macro_f1_fg": Metric("Macro F1", "every class counts the same"),
        "weighted_f1_fg": Metric("Weighted F1", "classes count by their images"),
        "macro_precision_fg": Metric("Macro precision", "of what it calls a class, how much is"),
        "macro_recall_fg": Metric("Macro recall", "of a class, how much it finds"),
        "accuracy": Metric("Accuracy", "images that are right"),
        "balanced_accuracy": Metric("Balanced accuracy", "macro recall with background"),
        "recall_many": Metric("Recall, common classes", "more than 100 training images"),
        "recall_medium": Metric("Recall, medium classes", "20 to 100 training images"),
        "recall_few": Metric("Recall, rare classes", "fewer than 20 training images"),
        "nll": Metric("Log loss", "doubt about the true class", is_share=False),
        "brier": Metric("Brier score", "squared error of the probabilities", is_share=False),
        "ece": Metric("Calibration error", "ECE: confidence against being right"),
    }
)


def html(words: object) -> str:
    """Text that is safe between tags and in quoted attributes; no stranger's name passes without."""
    return escape(printable(str(words)), quote=True)


def name_html(name: str, most: int = 24) -> str:
    """A name cut to a length, whole as the hover text."""
    return f'<bdi title="{html(name)}">{html(shortened(printable(name), most))}</bdi>'


def count(value: float, digits: int = 1) -> str:
    r"""A number of things, such as 2 480 or 2.3; a mean over seeds need not be whole.

    >>> count(2480), count(2.25)
    ('2\u202f480', '2.2')
    """
    return f"{value:,.{0 if float(value).is_integer() else digits}f}".replace(",", GAP)


def things(value: float, word: str) -> str:
    """A count with its noun.

    >>> things(1, "image"), things(3, "class")
    ('1 image', '3 classes')
    """
    plural = f"{word}es" if word.endswith("s") else f"{word}s"
    return f"{count(value)} {word if value == 1 else plural}"


def change(value: float, digits: int = 1) -> str:
    """A difference with its sign, and a true minus.

    >>> change(1.94), change(-0.04), change(-3, 0)
    ('+1.9', '0.0', '−3')
    """
    if not math.isfinite(value):
        return "—"
    shown = f"{value:+.{digits}f}".replace("-", "−")
    return shown[1:] if not any(c in "123456789" for c in shown) else shown


def figure_of(metric: str, value: float) -> str:
    """A value of a metric."""
    if not math.isfinite(value):
        return "—"
    return f"{100 * value:.1f} %" if METRICS[metric].is_share else f"{value:.3f}"


def difference(metric: str, value: float) -> str:
    """A difference of a metric, in its unit but without it."""
    return change(100 * value) if METRICS[metric].is_share else change(value, 3)


def interval_words(metric: str, low: float, high: float) -> str:
    """An interval as "+0.6 to +3.1"."""
    return f"{difference(metric, low)} to {difference(metric, high)}" if math.isfinite(high - low) else "—"


def direction(metric: str) -> str:
    """Which way is better."""
    return "higher is better" if HIGHER_IS_BETTER[metric] else "lower is better"


def winner(verdict: str) -> str:
    """Who won, by the verdict on row B: B, A or nobody (an empty string)."""
    return {BETTER: "B", WORSE: "A"}.get(verdict, "")


def who(name: str) -> str:
    """A side with its mark, so that colour never stands alone."""
    return f'<span class="fb-key fb-{name.lower()}" aria-hidden="true">{"●" if name == "A" else "◆"}</span>&nbsp;{name}'


def runs_of(pair: Pair) -> str:
    """The keys of a pair, A's before B's: what the data-run of every piece holds."""
    return " ".join(",".join(side.keys) for side in pair.sides)


def piece(pair: Pair, testid: str, body: Sequence[str], state: str = "") -> str:
    """A piece of the page, with what a test or another program finds it by."""
    known = {"testid": testid, "role": pair.comparison.role, "run": runs_of(pair)} | ({"state": state} if state else {})
    attributes = " ".join(f'data-{key}="{html(value)}"' for key, value in known.items())
    return f'<section class="fb fb-piece" {attributes}>{"".join(body)}</section>'


def scrolled(table: str, label: str) -> str:
    """A table that scrolls inside its own box, with the keyboard too."""
    return f'<div class="fb-scroll" tabindex="0" role="region" aria-label="{html(label)}">{table}</div>'


def by_metric(pair: Pair) -> dict[str, tuple[dict[str, float], dict[str, float]]]:
    """The lines of A and B of each metric."""
    lines: dict[str, dict[str, dict[str, float]]] = {}
    for line in pair.comparison.table.to_dict("records"):
        lines.setdefault(str(line["metric"]), {})[str(line["row"])] = {str(key): value for key, value in line.items()}
    return {metric: (found["A"], found["B"]) for metric, found in lines.items()}
