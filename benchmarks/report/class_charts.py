"""Charts over classes as inline SVG: confusion matrix and class histogram."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from frostbench.benchmarks.report.charts import WIDTH
from frostbench.benchmarks.report.svg import INK, MUTED, SERIES, Scale, box, figure, line, shortened, text
from frostbench.benchmarks.settings.nouns import with_noun

MOST_CLASSES = 40
"""More rows or columns than this are not legible in one chart."""


def confusion_matrix(
    pairs: Sequence[tuple[int, int, int]], names: Sequence[str], title: str, most: int = MOST_CLASSES
) -> str:
    """Draw a confusion matrix: labels as rows, predictions as columns, shaded by the share of the row, with counts.

    Args:
        pairs: (label, predicted, rows) of every pair that occurs.
        names: class names.
        title: title of the chart.
        most: maximum number of classes; if there are more, only the most frequent are drawn.
    """
    label, predicted, rows = np.array(pairs, dtype=np.int64).reshape(-1, 3).T
    support = np.bincount(label, rows, len(names))
    chosen = np.sort(np.argsort(-support, kind="stable")[:most])
    left, top = 110.0, 96.0
    cell = min(34.0, (WIDTH - left - 8) / len(chosen))
    body = _axes([names[i] for i in chosen], left, top, cell)
    position = {int(c): i for i, c in enumerate(chosen)}
    shown = [pair for pair in zip(label, predicted, rows, strict=True) if pair[0] in position and pair[1] in position]
    for i in position.values():
        body.append(box(left + cell * i + 1, top + cell * i + 1, cell - 2, cell - 2, fill="none", stroke=INK))
    for label_class, predicted_class, n in shown:
        x, y = left + cell * position[int(predicted_class)], top + cell * position[int(label_class)]
        body.append(_cell(x, y, cell, int(n), float(n / support[label_class]), label_class == predicted_class))
    hidden = (
        "" if len(chosen) == len(names) else f" Only the {len(chosen)} most frequent of {len(names)} classes are drawn."
    )
    description = (
        f"{int(rows[label == predicted].sum())} of {with_noun(int(rows.sum()), 'row')} on the diagonal.{hidden}"
    )
    return figure(body, WIDTH, top + cell * len(chosen) + 10, title, description)


def _axes(labels: Sequence[str], left: float, top: float, cell: float) -> list[str]:
    end = cell * len(labels)
    body = [text(4, top - 8, "true", color=MUTED), text(left, 12, "predicted", color=MUTED)]
    for i in range(len(labels) + 1):
        body.append(line(left, top + cell * i, left + end, top + cell * i))
        body.append(line(left + cell * i, top, left + cell * i, top + end))
    for i, name in enumerate(labels):
        middle = cell * (i + 0.5)
        body.append(text(left - 6, top + middle + 4, shortened(name, 15), anchor="end", size=11))
        turned = f'<g transform="translate({left + middle + 4:.1f} {top - 6:.1f}) rotate(-60)">'
        body.append(turned + text(0, 0, shortened(name, 13), size=11) + "</g>")
    return body


def _cell(x: float, y: float, side: float, count: int, share: float, is_right: bool) -> str:
    color = SERIES[0] if is_right else SERIES[1]
    parts = [box(x, y, side, side, fill=color, opacity=0.5 * share)]
    if side >= 16:
        parts.append(text(x + side / 2, y + side / 2 + 4, str(count), anchor="middle", size=11 if count < 1000 else 9))
    return "".join(parts)


def class_histogram(names: Sequence[str], counts: Sequence[int], title: str) -> str:
    """Draw rows per class on a logarithmic axis, most frequent first; of too many classes, evenly spaced ranks."""
    order = sorted(range(len(names)), key=lambda i: -counts[i])
    ranks = sorted({round(i * (len(order) - 1) / (MOST_CLASSES - 1)) for i in range(MOST_CLASSES)})
    shown = order if len(order) <= MOST_CLASSES else [order[i] for i in ranks]
    left, top, step = 130.0, 8.0, 20.0
    bottom = top + step * len(shown)
    high = max(10, *(counts[i] for i in shown))
    along = Scale(math.log10(0.8), math.log10(high), left, WIDTH - 46)
    powers = [10**p for p in range(int(math.log10(high)) + 1)]
    body = [line(along(math.log10(v)), top, along(math.log10(v)), bottom) for v in powers]
    body += [text(along(math.log10(v)), bottom + 14, f"{v:,}", anchor="middle") for v in powers]
    for number, i in enumerate(shown):
        y = top + step * number
        end = along(math.log10(counts[i])) if counts[i] else left
        body.append(text(left - 6, y + 14, shortened(names[i], 17), anchor="end"))
        body.append(box(left, y + 3, end - left, step - 6, fill=SERIES[0]))
        body.append(text(end + 5, y + 14, f"{counts[i]:,}"))
    body.append(text((left + WIDTH) / 2, bottom + 30, "rows (logarithmic)", anchor="middle", color=MUTED))
    largest_ratio = max((a / b for a, b in pairwise(counts[i] for i in shown) if b), default=1.0)
    description = (
        f"{with_noun(len(names), 'class')} with {min(counts)} to {with_noun(max(counts), 'row')}; the largest ratio of "
        f"neighbouring bars is {largest_ratio:.1f}."
    )
    return figure(body, WIDTH, bottom + 38, title, description)
