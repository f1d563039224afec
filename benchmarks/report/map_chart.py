"""A map of a cache as a scatter plot, coloured and shaped by class."""

from html import escape
from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup

from frostbench.benchmarks.report.page import write_page
from frostbench.benchmarks.report.svg import GRID, MUTED, SERIES, SHAPES, box, figure, mark, printable, shortened, text
from frostbench.benchmarks.settings.nouns import with_noun

WIDTH, HEIGHT, MARGIN, LEGEND = 900.0, 620.0, 12.0, 220.0
MOST_POINTS = 5000
"""A page with more marks is slow to open, and the marks overlap."""
STYLES = [(color, shape) for shape in SHAPES for color in SERIES]
"""Colour and shape of the most frequent classes; all further classes share a grey ring."""


def map_svg(points: pd.DataFrame, title: str) -> str:
    """Draw a scatter plot of the rows of a map (id, label, x, y), or of an evenly spaced subset if there are too many.

    Both axes have the same scale. The most frequent classes have their own colour and shape; the others are grey rings.
    """
    shown = _thinned(points)
    styled = points["label"].value_counts(sort=True).index[: len(STYLES)].tolist()
    style_of = dict(zip(styled, STYLES, strict=False))
    positions = _positions(points, shown)
    body = [box(0.5, 0.5, WIDTH - LEGEND - 1, HEIGHT - 1, fill="none", stroke=GRID)]
    # Draw grey marks first, so that they lie below the others.
    order = np.argsort([label in style_of for label in shown["label"]], kind="stable")
    for i in order:
        label, name = str(shown["label"].iloc[i]), str(shown["id"].iloc[i])
        label_text = escape(printable(f"{name}: {label}"))
        body.append(f"<g><title>{label_text}</title>{_mark(positions[i, 0], positions[i, 1], style_of.get(label))}</g>")
    body += _legend(points, styled, style_of)
    verb = "is" if len(shown) == 1 else "are"
    return figure(body, WIDTH, HEIGHT, title, f"{len(shown)} of {with_noun(len(points), 'row')} {verb} shown.")


def write_map_page(points: pd.DataFrame, title: str, out: Path) -> Path:
    """Write a self-contained HTML page with the scatter plot and return its path."""
    shown = min(len(points), MOST_POINTS)
    values = {"title": title, "shown": shown, "rows": len(points), "chart": Markup(map_svg(points, title))}
    return write_page("map.html.j2", values, out)


def _thinned(points: pd.DataFrame) -> pd.DataFrame:
    if len(points) <= MOST_POINTS:
        return points
    return points.iloc[np.linspace(0, len(points) - 1, MOST_POINTS).astype(int)]


def _positions(points: pd.DataFrame, shown: pd.DataFrame) -> np.ndarray:
    """Return the drawing coordinates of the shown rows [n, 2]; the full map fits, with one scale for both axes."""
    all_points, shown_points = points[["x", "y"]].to_numpy(dtype=float), shown[["x", "y"]].to_numpy(dtype=float)
    low, high = all_points.min(axis=0), all_points.max(axis=0)
    room = np.array([WIDTH - LEGEND, HEIGHT]) - 2 * MARGIN
    scale = float((room / np.maximum(high - low, 1e-12)).min())
    centred = (shown_points - (low + high) / 2) * scale
    return np.asarray(np.array([WIDTH - LEGEND, HEIGHT]) / 2 + centred * [1, -1])


def _mark(x: float, y: float, style: tuple[str, str] | None) -> str:
    if style is None:
        return mark(x, y, "circle", color=MUTED, hollow=True, size=2.0)
    return mark(x, y, style[1], color=style[0], size=3.0)


def _legend(points: pd.DataFrame, styled: list[str], style_of: dict[str, tuple[str, str]]) -> list[str]:
    counts, left, body = points["label"].value_counts(), WIDTH - LEGEND + 20, []
    for i, label in enumerate(styled):
        y = 20.0 + 22 * i
        body.append(_mark(left, y - 4, style_of[label]))
        body.append(text(left + 12, y, f"{shortened(str(label), 22)} ({counts[label]})"))
    others = len(counts) - len(styled)
    if others > 0:
        y = 20.0 + 22 * len(styled)
        body += [_mark(left, y - 4, None), text(left + 12, y, with_noun(others, "other class"), color=MUTED)]
    return body
