"""Notes, differing options and costs of a comparison."""

from frostbench.app.views.formatting import count, count_noun, html, piece, scrolled, side_html
from frostbench.benchmarks.comparison.ab import SIDES, Pair
from frostbench.benchmarks.comparison.changes import Change


def notes_html(pair: Pair) -> str:
    """Return the notes and warnings about the comparison."""
    notes = (*pair.left_out, *pair.comparison.notes)
    title = '<h3 class="fb-title">Notes</h3>'
    if not notes:
        return piece(pair, "notes", [title, '<p class="fb-message">No warnings.</p>'], "empty")
    items = "".join(f"<li>{html(note)}</li>" for note in notes)
    return piece(pair, "notes", [title, f'<ul class="fb-list fb-notes">{items}</ul>'], "shown")


def options_diff_html(pair: Pair) -> str:
    """Return the options in which B differs from A."""
    title = '<h3 class="fb-title">Options that differ</h3>'
    if not pair.options:
        message = '<p class="fb-message">A and B have the same options.</p>'
        return piece(pair, "options-diff", [title, message], "empty")
    rows = "".join(
        f'<tr data-option="{html(change.path)}"><th scope="row">{_option(change)}</th>'
        f"<td>{'—' if change.before is None else html(change.before)}</td><td>{html(change.after)}</td></tr>"
        for change in pair.options
    )
    head = _head("Option")
    hint = "" if len(pair.options) == 1 else " Change one at a time to see which of them matters."
    sub = f'<p class="fb-sub">B differs from A in {count_noun(len(pair.options), "option")}.{hint}</p>'
    table = scrolled(f'<table class="fb-table">{head}<tbody>{rows}</tbody></table>', "Options that differ")
    return piece(pair, "options-diff", [title, sub, table], "shown")


def _option(change: Change) -> str:
    """Return the title and the path of an option."""
    title = f"{html(change.title)} " if change.title else ""
    return f"{title}<code>{html(change.path)}</code>"


def _head(first: str) -> str:
    sides = "".join(f'<th scope="col">{side_html(name)}</th>' for name in SIDES)
    return f'<thead><tr><th scope="col">{first}</th>{sides}</tr></thead>'


def costs_html(pair: Pair) -> str:
    """Return what each side costs: training time and size of the head."""
    a, b = pair.sides
    lines = [
        ("Training, seconds", *(f"{side.seconds:.1f}" for side in (a, b))),
        ("Parameters of the head", *("—" if s.parameters is None else count(s.parameters) for s in (a, b))),
        ("Vector columns", *(", ".join(side.columns) for side in (a, b))),
        ("Cache", a.cache, b.cache),
        ("Run", *(", ".join(side.keys) for side in (a, b))),
    ]
    rows = "".join(
        f'<tr><th scope="row">{html(label)}</th><td>{html(first)}</td><td>{html(second)}</td></tr>'
        for label, first, second in lines
    )
    head = _head("Per run")
    table = scrolled(f'<table class="fb-table">{head}<tbody>{rows}</tbody></table>', "Costs")
    return piece(pair, "costs", ['<h3 class="fb-title">Costs</h3>', table])
