"""Fill the page's template with the result tables of docs/results/tables."""

import json
import math
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import studentized_range

from frostbench.benchmarks.comparison.metrics import HIGHER_IS_BETTER
from frostbench.benchmarks.results.ablation.tables import read_tables
from frostbench.embedcache.outputs.writing import write_text

NAMES = ("bench", "data", "backbone", "row", "metric", "verdict")
"""Columns of texts, which the page holds once each."""
FIGURES = ("value", "delta", "low", "high", "seeds", "seconds")
"""Columns of numbers."""
MOST_ROWS = 60
"""Largest number of methods with a critical difference."""
MOST_BYTES = 5 * 2**20
"""Largest size of the page."""


def regenerate(out: Path) -> Iterator[str]:
    """Write OUT/explorer.html and yield progress.

    Raises:
        ValueError: there are no result tables, or the page would become too large.
    """
    html = page_of(read_tables(out))
    if len(html.encode()) > MOST_BYTES:
        raise ValueError(
            f"The page must have at most {MOST_BYTES:,} bytes, but has {len(html.encode()):,}. Leave out metrics."
        )
    write_text(out / "explorer.html", html)
    yield f"wrote {out / 'explorer.html'}, {len(html.encode()) / 1e6:.1f} MB"


def page_of(frame: pd.DataFrame) -> str:
    """Return the page with all lines of a frame of results (`frostbench.benchmarks.results.ablation.tables`)."""
    folder = resources.files(__package__)
    html, style, script = ((folder / name).read_text("utf-8") for name in ("page.html", "page.css", "page.js"))
    # A name in the data must not end the script element.
    data = json.dumps(packed(frame), separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    return html.replace("/*STYLE*/", style).replace("/*DATA*/", data).replace("/*SCRIPT*/", script)


def packed(frame: pd.DataFrame) -> dict[str, Any]:
    """Return the frame for JSON: each text once, and a line of indices and numbers per result."""
    texts = {name: list(dict.fromkeys(frame[name].fillna("").astype(str))) for name in NAMES}
    index = {name: {text: number for number, text in enumerate(known)} for name, known in texts.items()}
    lines = [
        [*(index[name][_text(line[name])] for name in NAMES), *(_figure(line[name]) for name in FIGURES)]
        for line in frame.to_dict("records")
    ]
    falling = [name for name, rises in HIGHER_IS_BETTER.items() if not rises]
    return {"texts": texts, "lines": lines, "falling": falling, "nemenyi": nemenyi()}


def _text(value: Any) -> str:
    return "" if isinstance(value, float) and math.isnan(value) else str(value)


def _figure(value: Any) -> float | None:
    return None if pd.isna(value) else float(f"{float(value):.5g}")


def nemenyi(level: float = 0.05) -> list[float]:
    """Return the critical values of Nemenyi's test for 0 to `MOST_ROWS` methods; those below 2 are 0.

    Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 2006, Table 5: the studentised range
    for infinitely many degrees of freedom, divided by the square root of 2.

    >>> [round(value, 3) for value in nemenyi()[2:5]]
    [1.96, 2.344, 2.569]
    """
    rest = (float(studentized_range.isf(level, k, math.inf)) / math.sqrt(2) for k in range(2, MOST_ROWS + 1))
    return [0.0, 0.0, *(round(value, 4) for value in rest)]
