"""Escaped HTML about the state of a form: differences, errors, warnings and reasons for disabled options."""

import re
from collections.abc import Sequence
from html import escape

from frostbench.app.page.form import SIDES
from frostbench.app.page.state import View
from frostbench.app.rows import Row
from frostbench.benchmarks.settings.nouns import with_noun

MARKS = {"A": "●", "B": "◆"}
NAMES = {"A": "A · reference", "B": "B · challenger"}


def side_html(side: str, tag: str = "b", name: str = "") -> str:
    """Return the name of a side with its mark, in an element of its colour."""
    return f'<{tag} class="fp-side fp-{side}"><span aria-hidden="true">{MARKS[side]}</span> {name or side}</{tag}>'


def dom_id(*parts: str) -> str:
    """Return an HTML id from parts such as a side and a row key.

    >>> dom_id("A", "head.body<mlp>.hidden")
    'A-head-body-mlp-hidden'
    """
    return "-".join(re.sub("[^A-Za-z0-9]+", "-", part).strip("-") for part in parts)


def reasons_html(rows: Sequence[Row], view: View) -> dict[str, str]:
    """Return the reason for each row that a side cannot use, without repeating that of the row above."""
    parts, above = {}, ""
    for row in rows:
        reasons = {side: view.disabled[side].get(row.key, "") for side in SIDES}
        if reasons["A"] == reasons["B"] and reasons["A"]:
            html = _reason("A and B", reasons["A"])
        else:
            html = "".join(_reason(side, reason) for side, reason in reasons.items() if reason)
        if html:
            parts[row.key] = AS_ABOVE if html == above else html
        above = html
    return parts


AS_ABOVE = '<p class="fp-reason" data-testid="reason">Disabled for the reason above.</p>'


def _reason(sides: str, sentence: str) -> str:
    return f'<p class="fp-reason" data-testid="reason"><b>{sides}:</b> {escape(sentence)}</p>'


def difference_html(view: View) -> str:
    """Return the differences between B and A, followed by errors and warnings."""
    found = view.differences
    if not found:
        text = "<b>A and B are identical.</b> Change one option of B to test it."
    else:
        chips = "".join(
            f'<span class="fp-chip">{escape(d.row.label)}: {_format(d.a)} → <b>{_format(d.b)}</b></span>' for d in found
        )
        text = f"<b>B differs from A in {with_noun(len(found), 'option')}:</b> {chips}"
        if len(found) > 1:
            text += "<small>Change one option at a time to know which one made the difference.</small>"
    messages = "".join(_messages(side, view.errors[side], view.warnings[side]) for side in SIDES)
    return (
        f'<div class="fp-diff" data-testid="diff" data-n="{len(found)}" '
        f'data-state="{"error" if any(view.errors.values()) else "ready"}">{text}</div>{messages}'
    )


def _messages(side: str, error: str, warnings: tuple[str, ...]) -> str:
    lines = ""
    if error:
        lines += (
            f'<p class="fp-error" role="alert" data-testid="error-{side}">'
            f"<b>✖ {side} cannot be trained:</b> {escape(error)}</p>"
        )
    return lines + "".join(
        f'<p class="fp-warning" data-testid="warning-{side}"><b>▲ {side}:</b> {escape(w)}</p>' for w in warnings
    )


def _format(value: object) -> str:
    if value is None or value == []:
        return "—"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    return escape(", ".join(map(str, value)) if isinstance(value, list) else str(value))
