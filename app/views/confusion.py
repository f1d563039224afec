"""Changes in confusion between A and B, and the confusion matrix of each side."""

from collections.abc import Mapping, Sequence

from frostbench.app.views.formatting import change, count, count_noun, html, name_html, piece, scrolled, side_html
from frostbench.benchmarks.comparison.ab import Pair
from frostbench.benchmarks.comparison.class_deltas import CellChange
from frostbench.benchmarks.report.class_charts import confusion_matrix

MOST_CLASSES, MOST_PAIRS, MOST_DRAWN = 14, 8, 20
"""Maximum number of classes in the matrix of changes, of pairs in the list, and of classes in a side's matrix."""


def confusion_change_html(pair: Pair) -> str:
    """Return the change of the confusion matrix from A to B for the classes that changed most."""
    title = '<h3 class="fb-title">Change in confusion</h3>'
    if not pair.confusion:
        words = "A and B predicted the same class for every image."
        return piece(pair, "confusion-change", [title, f'<p class="fb-message">{words}</p>'], "empty")
    chosen = _chosen(pair.confusion)
    cells = {(cell.label, cell.predicted): cell.rows for cell in pair.confusion}
    seeds = "" if len(pair.comparison.seeds) == 1 else " (mean over seeds)"
    sub = (
        f'<p class="fb-sub">Number of images, B − A{seeds}. Rows are true classes, columns predicted classes. '
        '<span class="fb-nowrap"><span class="fb-swatch fb-good"></span> better:</span> more on the framed diagonal, '
        'fewer elsewhere. <span class="fb-nowrap"><span class="fb-swatch fb-bad"></span> worse:</span> the opposite, '
        "hatched.</p>"
    )
    body = [title, sub, scrolled(_matrix(chosen, cells, pair.class_names), "Change in confusion")]
    body += [_rest(pair, chosen), _pairs(pair)]
    return piece(pair, "confusion-change", body, "shown")


def _chosen(changes: Sequence[CellChange]) -> list[int]:
    """Return the indices of the classes with the largest changes in their row and column, in ascending order."""
    total: dict[int, float] = {}
    for cell in changes:
        for index in {cell.label, cell.predicted}:
            total[index] = total.get(index, 0.0) + abs(cell.rows)
    return sorted(sorted(total, key=lambda index: -total[index])[:MOST_CLASSES])


def _matrix(chosen: Sequence[int], cells: Mapping[tuple[int, int], float], names: Sequence[str]) -> str:
    top = max((abs(v) for (true, guess), v in cells.items() if true in chosen and guess in chosen), default=1.0)
    columns = "".join(f'<th scope="col"><span>{name_html(names[c], 16)}</span></th>' for c in chosen)
    head = f'<thead><tr><th class="fb-corner">true ↓ predicted →</th>{columns}</tr></thead>'
    rows = []
    for true in chosen:
        drawn = "".join(_cell(cells.get((true, guess), 0.0), top, true == guess) for guess in chosen)
        rows.append(f'<tr><th scope="row">{name_html(names[true], 16)}</th>{drawn}</tr>')
    return f'<table class="fb-matrix">{head}<tbody>{"".join(rows)}</tbody></table>'


def _cell(value: float, top: float, is_correct: bool) -> str:
    frame = " fb-own" if is_correct else ""
    if not value:
        return f'<td class="fb-cell{frame}">·</td>'
    kind = "good" if (value > 0) == is_correct else "bad"
    # The style sheet defines five shades.
    shade = max(1, round(5 * abs(value) / top))
    return f'<td class="fb-cell fb-{kind} fb-shade-{shade}{frame}">{change(value, 0 if value.is_integer() else 1)}</td>'


def _rest(pair: Pair, chosen: Sequence[int]) -> str:
    hidden = [cell for cell in pair.confusion if cell.label not in chosen or cell.predicted not in chosen]
    if not hidden:
        return ""
    moved = sum(abs(cell.rows) for cell in hidden)
    return (
        f'<p class="fb-sub">The {len(chosen)} of {len(pair.class_names)} classes that changed most. '
        f"{count_noun(len(hidden), 'other cell')} changed, by {count_noun(moved, 'image')} in total.</p>"
    )


def _pairs(pair: Pair) -> str:
    """Return a list of the errors that changed most."""
    wrong = [cell for cell in pair.confusion if cell.label != cell.predicted][:MOST_PAIRS]
    items = []
    for cell in wrong:
        better = cell.rows < 0
        kind, arrow, comparative = ("good", "▲", "fewer") if better else ("bad", "▼", "more")
        mark = f'<span class="fb-key fb-{kind}-key" aria-hidden="true">{arrow}</span>'
        names = f"{name_html(pair.class_names[cell.label])} predicted as {name_html(pair.class_names[cell.predicted])}"
        items.append(f"<li>{mark} {names}: {count(abs(cell.rows))} {comparative}</li>")
    if not items:
        return ""
    listed = f'<ul class="fb-list" data-testid="confusion-pairs">{"".join(items)}</ul>'
    return f'<p class="fb-sub">Errors that changed most:</p>{listed}'


def confusion_html(pair: Pair, name: str) -> str:
    """Return the confusion matrix of one side's first seed."""
    side = next(side for side in pair.sides if side.name == name)
    seed = pair.comparison.seeds[0]
    drawing = confusion_matrix(side.confusion, pair.class_names, f"Confusion of {name}, seed {seed}", MOST_DRAWN)
    total = len(pair.class_names)
    cut = f" The {MOST_DRAWN} of {total} classes with the most images." if total > MOST_DRAWN else ""
    body = [
        f'<h4 class="fb-title">{side_html(name)}, seed {html(seed)}</h4>',
        f'<p class="fb-sub">Framed cells are correct; darker cells hold a larger share of the true class.{cut}</p>',
        f'<div class="fb-figure">{drawing}</div>',
    ]
    return piece(pair, f"confusion-{name.lower()}", body)
