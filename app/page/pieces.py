"""What the page says of a form, as escaped HTML."""

import re
from collections.abc import Sequence
from html import escape

from frostbench.app.page.state import SIDES, View
from frostbench.app.rows import Row

MARKS = {"A": "●", "B": "◆"}
NAMES = {"A": "A · reference", "B": "B · challenger"}


def dom_id(*parts: str) -> str:
    """An id for the page from a side and a row key.

    >>> dom_id("A", "head.body<mlp>.hidden")
    'A-head-body-mlp-hidden'
    """
    return "-".join(re.sub("[^A-Za-z0-9]+", "-", part).strip("-") for part in parts)


def reasons_html(rows: Sequence[Row], view: View) -> dict[str, str]:
    """For each row that a side cannot use, why; a reason is not said twice in a row."""
    found, above = {}, ""
    for row in rows:
        reasons = {side: view.disabled[side].get(row.key, "") for side in SIDES}
        if reasons["A"] == reasons["B"] and reasons["A"]:
            told = _reason("A and B", reasons["A"])
        else:
            told = "".join(_reason(side, reason) for side, reason in reasons.items() if reason)
        if told:
            found[row.key] = AS_ABOVE if told == above else told
        above = told
    return found


AS_ABOVE = '<p class="fp-reason" data-testid="reason">Not used, for the reason above.</p>'


def _reason(who: str, sentence: str) -> str:
    return f'<p class="fp-reason" data-testid="reason"><b>{who}:</b> {escape(sentence)}</p>'


def difference_html(view: View) -> str:
    """In what B differs from A, and what does not go together."""
    found = view.differences
    if not found:
        told = "<b>A and B are the same.</b> Change one option of B to test it."
    else:
        chips = "".join(
            f'<span class="fp-chip">{escape(d.row.label)}: {_word(d.a)} → <b>{_word(d.b)}</b></span>' for d in found
        )
        told = f"<b>B differs from A in {len(found)} option{'s' if len(found) > 1 else ''}:</b> {chips}"
        if len(found) > 1:
            told += "<small>With more than one you will not know which made the difference.</small>"
    said = "".join(_message(side, view.errors[side], view.warnings[side]) for side in SIDES)
    return (
        f'<div class="fp-diff" data-testid="diff" data-n="{len(found)}" '
        f'data-state="{"error" if any(view.errors.values()) else "ready"}">{told}</div>{said}'
    )


def _message(side: str, error: str, warnings: tuple[str, ...]) -> str:
    lines = ""
    if error:
        lines += (
            f'<p class="fp-error" role="alert" data-testid="error-{side}">'
            f"<b>✖ {side} cannot be trained:</b> {escape(error)}</p>"
        )
    return lines + "".join(
        f'<p class="fp-warning" data-testid="warning-{side}"><b>▲ {side}:</b> {escape(w)}</p>' for w in warnings
    )


def _word(value: object) -> str:
    if value is None or value == []:
        return "—"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    return escape(", ".join(map(str, value)) if isinstance(value, list) else str(value))
