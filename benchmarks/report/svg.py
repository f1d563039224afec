"""SVG building blocks of all charts: escaped text, marks, axes and the enclosing figure.

Colours are CSS variables with a fallback: a page sets them once for light and dark mode, and a chart on its own is
still readable. A shape, dash or word repeats what a colour conveys.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

INK, MUTED, GRID, PAPER = (
    "var(--chart-ink, #1f2328)",
    "var(--chart-muted, #59636e)",
    "var(--chart-grid, #d1d9e0)",
    "var(--chart-paper, #ffffff)",
)
SERIES = (
    "var(--chart-1, #0b62a8)",
    "var(--chart-2, #b34700)",
    "var(--chart-3, #00755a)",
    "var(--chart-4, #8a3a86)",
)
"""Colours of series; their contrast with the background exceeds 4.5:1, so text can use them too."""
DASHES = ("", "6 3", "2 3", "8 3 2 3")
SHAPES = ("circle", "square", "triangle", "diamond")
FONT = "font-family:system-ui,sans-serif;font-size:12px"

CHART_CSS = """
:root { --chart-ink: #1f2328; --chart-muted: #59636e; --chart-grid: #d1d9e0; --chart-paper: #ffffff;
  --chart-1: #0b62a8; --chart-2: #b34700; --chart-3: #00755a; --chart-4: #8a3a86; }
@media (prefers-color-scheme: dark) { :root { --chart-ink: #e6edf3; --chart-muted: #9da7b1; --chart-grid: #3d444d;
  --chart-paper: #14181d; --chart-1: #6cb6ff; --chart-2: #f0a35e; --chart-3: #56d3a5; --chart-4: #dd9bda; } }
"""
"""The CSS variables for a page in light and dark mode."""


@dataclass(frozen=True)
class Scale:
    """Linear map from values in [low, high], clipped, to coordinates in [start, end]."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the coordinate of a value."""
        share = (min(max(value, self.low), self.high) - self.low) / ((self.high - self.low) or 1.0)
        return self.start + share * (self.end - self.start)


def text(x: float, y: float, string: str, *, anchor: str = "start", color: str = INK, size: int = 12) -> str:
    """Return a text element with every XML special character escaped."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
        f'style="fill:{color};font-size:{size}px">{escape(printable(string))}</text>'
    )


def printable(string: str) -> str:
    r"""Replace each character that cannot be printed: any kind of space with a plain one, others with �.

    >>> printable("a\x00b")
    'a�b'
    """
    return "".join(c if c.isprintable() else " " if c.isspace() else "�" for c in string)


def shortened(string: str, most: int) -> str:
    """Shorten a string to at most this many characters, ending in an ellipsis if cut."""
    return string if len(string) <= most else string[: most - 1].rstrip() + "…"


def line(x1: float, y1: float, x2: float, y2: float, *, color: str = GRID, width: float = 1.0, dash: str = "") -> str:
    """Return a straight line."""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'style="stroke:{color};stroke-width:{width};stroke-dasharray:{dash or "none"}"/>'
    )


def path(points: Sequence[tuple[float, float]], *, color: str, dash: str = "") -> str:
    """Return a polyline through points."""
    steps = " ".join(f"{'L' if i else 'M'}{x:.1f},{y:.1f}" for i, (x, y) in enumerate(points))
    return f'<path d="{steps}" style="fill:none;stroke:{color};stroke-width:2;stroke-dasharray:{dash or "none"}"/>'


def box(
    x: float, y: float, width: float, height: float, *, fill: str, opacity: float = 1.0, stroke: str = "none"
) -> str:
    """Return a rectangle."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}" '
        f'style="fill:{fill};fill-opacity:{opacity:.3f};stroke:{stroke}"/>'
    )


def mark(x: float, y: float, shape: str, *, color: str, hollow: bool = False, size: float = 4.5) -> str:
    """Return a mark: one of SHAPES, or "down", a triangle that points down."""
    style = f"fill:{PAPER if hollow else color};stroke:{color};stroke-width:1.5"
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" style="{style}"/>'
    corners = {
        "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        "triangle": ((0, -1.2), (1.2, 1), (-1.2, 1)),
        "down": ((0, 1.2), (1.2, -1), (-1.2, -1)),
        "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    }[shape]
    points = " ".join(f"{x + size * a:.1f},{y + size * b:.1f}" for a, b in corners)
    return f'<polygon points="{points}" style="{style}"/>'


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return at most this many round values inside [low, high]; empty if an end is not finite.

    >>> ticks(-0.11, 0.24)
    [-0.1, 0.0, 0.1, 0.2]
    """
    if not math.isfinite(high - low):
        return []
    # Doubles this close, relative to their size, have no round values in between.
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        return [low]
    power = math.floor(math.log10((high - low) / most))
    steps = (factor * 10.0**p for p in (power, power + 1, power + 2) for factor in (1, 2, 5))
    step = next(step for step in steps if math.floor(high / step) - math.ceil(low / step) < most)
    multiples = range(math.ceil(low / step), math.floor(high / step) + 1)
    return [round(i * step, max(0, 2 - power)) for i in multiples]


def figure(body: Sequence[str], width: float, height: float, title: str, description: str) -> str:
    """Return the complete SVG with a title and a description for screen readers."""
    head = f"<title>{escape(printable(title))}</title><desc>{escape(printable(description))}</desc>"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(printable(title))}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" style="{FONT}">'
        f"{head}{''.join(body)}</svg>"
    )
