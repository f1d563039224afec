"""Which mistakes came and went, and the confusion matrix of each side."""

from collections.abc import Mapping, Sequence

from frostbench.app.views.words import change, count, html, name_html, piece, scrolled, things, who
from frostbench.benchmarks.comparison.ab import Pair, Side
from frostbench.benchmarks.comparison.class_deltas import CellChange
from frostbench.benchmarks.report.class_charts import confusion_matrix

MOST_CLASSES, MOST_PAIRS, MOST_DRAWN = 14, 8, 20
"""Classes of the matrix of changes, pairs of the list, classes of a side's own matrix."""


def confusion_change_html(pair: Pair) -> str:
    """By how many images each cell of the confusion matrix grew from A to B, for the classes that changed most."""
    title = '<h3 class="fb-title">Change in confusion</h3>'
    if not pair.confusion:
        words = "A and B predicted the same class for every image."
        return piece(pair, "confusion-change", [title, f'<p class="fb-message">{words}</p>'], "empty")
    chosen = _chosen(pair.confusion)
    cells = {(cell.label, cell.predicted): cell.rows for cell in pair.confusion}
    seeds = "" if len(pair.comparison.seeds) == 1 else " (mean over seeds)"
    sub = (
        f'<p class="fb-sub">Images, B − A{seeds}. Rows are the true class, columns the predicted one. '
        '<span class="fb-nowrap"><span class="fb-swatch fb-good"></span> better:</span> more on the framed diagonal, '
        'fewer elsewhere. <span class="fb-nowrap"><span class="fb-swatch fb-bad"></span> worse</span>, hatched.</p>'
    )
    body = [title, sub, scrolled(_matrix(chosen, cells, pair.class_names), "Change in confusion")]
    body += [_rest(pair, chosen), _pairs(pair)]
    return piece(pair, "confusion-change", body, "shown")


def _chosen(changes: Sequence[CellChange]) -> list[int]:
    """The classes with most change in their row and column, in the order of the classes."""
    total: dict[int, float] = {}
    for cell in changes:
        for place in {cell.label, cell.predicted}:
            total[place] = total.get(place, 0.0) + abs(cell.rows)
    return sorted(sorted(total, key=lambda place: -total[place])[:MOST_CLASSES])


def _matrix(chosen: Sequence[int], cells: Mapping[tuple[int, int], float], names: Sequence[str]) -> str:
    top = max((abs(v) for (own, said), v in cells.items() if own in chosen and said in chosen), default=1.0)
    columns = "".join(f'<th scope="col"><span>{name_html(names[c], 16)}</span></th>' for c in chosen)
    head = f'<thead><tr><th class="fb-corner">true ↓ predicted →</th>{columns}</tr></thead>'
    rows = []
    for own in chosen:
        drawn = "".join(_cell(cells.get((own, said), 0.0), top, own == said) for said in chosen)
        rows.append(f'<tr><th scope="row">{name_html(names[own], 16)}</th>{drawn}</tr>')
    return f'<table class="fb-matrix">{head}<tbody>{"".join(rows)}</tbody></table>'


def _cell(value: float, top: float, own: bool) -> str:
    frame = " fb-own" if own else ""
    if not value:
        return f'<td class="fb-cell{frame}">·</td>'
    kind = "good" if (value > 0) == own else "bad"
    # Five steps of shade, so that a style sheet can hold them.
    shade = max(1, round(5 * abs(value) / top))
    return f'<td class="fb-cell fb-{kind} fb-shade-{shade}{frame}">{change(value, 0 if value.is_integer() else 1)}</td>'


def _rest(pair: Pair, chosen: Sequence[int]) -> str:
    hidden = [cell for cell in pair.confusion if cell.label not in chosen or cell.predicted not in chosen]
    if not hidden:
        return ""
    moved = sum(abs(cell.rows) for cell in hidden)
    return (
        f'<p class="fb-sub">The {len(chosen)} classes that changed most, of {len(pair.class_names)}. '
        f"Elsewhere {things(len(hidden), 'cell')} changed, by {things(moved, 'image')} in all.</p>"
    )


def _pairs(pair: Pair) -> str:
    """The mistakes that changed most, in words."""
    wrong = [cell for cell in pair.confusion if cell.label != cell.predicted][:MOST_PAIRS]
    items = []
    for cell in wrong:
        better = cell.rows < 0
        kind, arrow, words = ("good", "▲", "fewer") if better else ("bad", "▼", "more")
        mark = f'<span class="fb-key fb-{kind}-key" aria-hidden="true">{arrow}</span>'
        names = f"{name_html(pair.class_names[cell.label])} taken for {name_html(pair.class_names[cell.predicted])}"
        items.append(f"<li>{mark} {names}: {count(abs(cell.rows))} {words}</li>")
    if not items:
        return ""
    listed = f'<ul class="fb-list" data-testid="confusion-pairs">{"".join(items)}</ul>'
    return f'<p class="fb-sub">Mistakes that changed most:</p>{listed}'


def confusion_html(pair: Pair, name: str) -> str:
    """The confusion matrix of one side, of its first seed."""
    side = _side(pair, name)
    seed = pair.comparison.seeds[0]
    drawing = confusion_matrix(side.confusion, pair.class_names, f"Confusion of {name}, seed {seed}", MOST_DRAWN)
    most = len(pair.class_names) > MOST_DRAWN
    cut = f" The {MOST_DRAWN} classes with most images, of {len(pair.class_names)}." if most else ""
    body = [
        f'<h4 class="fb-title">{who(name)}, seed {html(seed)}</h4>',
        f'<p class="fb-sub">Framed cells are right; a cell is as dark as its share of the true class.{cut}</p>',
        f'<div class="fb-figure">{drawing}</div>',
    ]
    return piece(pair, f"confusion-{name.lower()}", body)


def _side(pair: Pair, name: str) -> Side:
    return next(side for side in pair.sides if side.name == name)
