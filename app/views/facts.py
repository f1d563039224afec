"""What a reader must know beside the figures: notes, options that differ, and costs."""

from frostbench.app.views.words import count, html, piece, scrolled, things, who
from frostbench.benchmarks.comparison.ab import SIDES, Pair
from frostbench.benchmarks.comparison.changes import Change


def notes_html(pair: Pair) -> str:
    """What a reader must know before trusting the comparison."""
    notes = (*pair.left_out, *pair.comparison.notes)
    title = '<h3 class="fb-title">Notes</h3>'
    if not notes:
        return piece(pair, "notes", [title, '<p class="fb-message">Nothing to warn of.</p>'], "empty")
    items = "".join(f"<li>{html(note)}</li>" for note in notes)
    return piece(pair, "notes", [title, f'<ul class="fb-list fb-notes">{items}</ul>'], "shown")


def options_diff_html(pair: Pair) -> str:
    """The options in which B differs from A."""
    title = '<h3 class="fb-title">Options that differ</h3>'
    if not pair.options:
        words = "A and B have the same options."
        return piece(pair, "options-diff", [title, f'<p class="fb-message">{words}</p>'], "empty")
    rows = "".join(
        f'<tr data-option="{html(one.path)}"><th scope="row">{_option(one)}</th>'
        f"<td>{'—' if one.before is None else html(one.before)}</td><td>{html(one.after)}</td></tr>"
        for one in pair.options
    )
    head = _head("Option")
    one = len(pair.options) == 1
    hint = "" if one else " Change one at a time to see which of them matters."
    sub = f'<p class="fb-sub">B differs from A in {things(len(pair.options), "option")}.{hint}</p>'
    table = scrolled(f'<table class="fb-table">{head}<tbody>{rows}</tbody></table>', "Options that differ")
    return piece(pair, "options-diff", [title, sub, table], "shown")


def _option(change: Change) -> str:
    """An option by its title, with its path beside it."""
    title = f"{html(change.title)} " if change.title else ""
    return f"{title}<code>{html(change.path)}</code>"


def _head(first: str) -> str:
    sides = "".join(f'<th scope="col">{who(name)}</th>' for name in SIDES)
    return f'<thead><tr><th scope="col">{first}</th>{sides}</tr></thead>'


def costs_html(pair: Pair) -> str:
    """What each side costs: seconds of training and the size of the head."""
    a, b = pair.sides
    lines = [
        ("Training, seconds", *(f"{side.seconds:.1f}" for side in (a, b))),
        ("Numbers in the head", *("—" if s.parameters is None else count(s.parameters) for s in (a, b))),
        ("Vector columns", *(", ".join(side.columns) for side in (a, b))),
        ("Cache", a.cache, b.cache),
        ("Run", *(", ".join(side.keys) for side in (a, b))),
    ]
    rows = "".join(
        f'<tr><th scope="row">{html(words)}</th><td>{html(first)}</td><td>{html(second)}</td></tr>'
        for words, first, second in lines
    )
    head = _head("Per run")
    table = scrolled(f'<table class="fb-table">{head}<tbody>{rows}</tbody></table>', "Costs")
    return piece(pair, "costs", ['<h3 class="fb-title">What it costs</h3>', table])
