"""The complete comparison section."""

from frostbench.app.views.confusion import confusion_change_html, confusion_html
from frostbench.app.views.delta_table import delta_table_html
from frostbench.app.views.facts import costs_html, notes_html, options_diff_html
from frostbench.app.views.formatting import html
from frostbench.app.views.per_class import Order, per_class_html
from frostbench.app.views.reliability import reliability_html
from frostbench.app.views.verdict import verdict_html
from frostbench.benchmarks.comparison.ab import MAIN, Pair


def compare_html(pair: Pair, metric: str = MAIN, order: Order = "change") -> str:
    """Return the comparison of A and B as HTML, most important part first."""
    both = f'<div class="fb-columns">{confusion_html(pair, "A")}{confusion_html(pair, "B")}</div>'
    parts = [
        verdict_html(pair, metric),
        delta_table_html(pair),
        f'<div class="fb-columns">{per_class_html(pair, order)}{confusion_change_html(pair)}</div>',
        reliability_html(pair),
        f'<div class="fb-columns">{options_diff_html(pair)}{costs_html(pair)}</div>',
        notes_html(pair),
        f'<details class="fb-details"><summary>Confusion matrices of A and B</summary>{both}</details>',
    ]
    return f'<div class="fb" data-testid="compare" data-state="done">{"".join(parts)}</div>'


def impossible_html(error: ValueError) -> str:
    """Return the reason why A and B cannot be compared."""
    return (
        '<div class="fp fp-empty" data-testid="compare" data-state="impossible"><b>A and B cannot be compared.</b> '
        f"{html(error)}</div>"
    )
