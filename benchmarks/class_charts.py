"""Charts over classes as inline SVG: the confusion matrix and the class histogram."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from benchmarks.charts import WIDTH
from benchmarks.svg import GRID, INK, MUTED, SERIES, Scale, box, figure, line, shortened, text

MOST_CLASSES = 40
"""More rows or columns than this cannot be read in one chart."""


def confusion_matrix(counts: npt.NDArray[np.int64], names: Sequence[str], title: str) -> str:
    """Rows are labels, columns predictions; a cell is as dark as its share of the row, and holds its count.

    Of more classes than fit, the most frequent are shown.
    """
    chosen = np.sort(np.argsort(-counts.sum(1), kind="stable")[:MOST_CLASSES])
    shown, labels = counts[np.ix_(chosen, chosen)], [names[i] for i in chosen]
    left, top = 110.0, 96.0
    cell = min(34.0, (WIDTH - left - 8) / len(labels))
    share = shown / np.maximum(counts[chosen].sum(1, keepdims=True), 1)
    body = [text(4, top - 8, "label", color=MUTED), text(left, 12, "prediction", color=MUTED)]
    for i, name in enumerate(labels):
        middle = cell * (i + 0.5)
        body.append(text(left - 6, top + middle + 4, shortened(name, 15), anchor="end", size=11))
        turned = f'<g transform="translate({left + middle + 4:.1f} {top - 6:.1f}) rotate(-60)">'
        body.append(turned + text(0, 0, shortened(name, 13), size=11) + "</g>")
        for j in range(len(labels)):
            body.append(
                _cell(left + cell * j, top + middle - cell / 2, cell, int(shown[i, j]), float(share[i, j]), i == j)
            )
    right, total = int(np.trace(counts)), int(counts.sum())
    hidden = "" if len(labels) == len(names) else f" The {len(labels)} most frequent of {len(names)} classes are drawn."
    told = f"{right} of {total} rows on the diagonal.{hidden}"
    return figure(body, WIDTH, top + cell * len(labels) + 10, title, told)


def _cell(x: float, y: float, side: float, count: int, share: float, own: bool) -> str:
    color = SERIES[0] if own else SERIES[1]
    parts = [box(x, y, side, side, fill=color, opacity=0.5 * share, stroke=GRID)]
    if own:
        parts.append(box(x + 1, y + 1, side - 2, side - 2, fill="none", stroke=INK))
    if count and side >= 16:
        parts.append(text(x + side / 2, y + side / 2 + 4, str(count), anchor="middle", size=11 if count < 1000 else 9))
    return "".join(parts)


def class_histogram(names: Sequence[str], counts: Sequence[int], title: str) -> str:
    """Rows per class on a logarithmic axis, most frequent first; of more classes than fit, evenly spaced ranks."""
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
    jumps = max((a / b for a, b in pairwise(counts[i] for i in shown) if b), default=1.0)
    told = f"{len(names)} classes, from {max(counts)} to {min(counts)} rows; the largest step is {jumps:.1f} to 1."
    return figure(body, WIDTH, bottom + 38, title, told)
