"""A comparison as a table for a document: Markdown and LaTeX."""

import math

import pandas as pd

from frostbench.benchmarks.comparison.compare import Comparison
from frostbench.benchmarks.comparison.metrics import MAIN
from frostbench.benchmarks.comparison.tables import number, signed
from frostbench.embedcache.names import one_line


def to_markdown(comparison: Comparison) -> str:
    """Return the comparison as a Markdown table with a caption above it."""
    frame = _frame(comparison)
    lines = [list(frame.columns), ["---", *["---:"] * (len(frame.columns) - 1)], *frame.to_numpy().tolist()]
    table = "\n".join("| " + " | ".join(_cell(text) for text in line) + " |" for line in lines)
    return f"{_cell(_caption(comparison))}\n\n{table}\n"


def to_latex(comparison: Comparison) -> str:
    """Return the comparison as a LaTeX table; the document needs the package booktabs."""
    frame = _frame(comparison)
    # Texts are escaped beforehand, because pandas does not escape a caption.
    escaped = frame.map(_escaped).rename(columns=_escaped)
    return escaped.to_latex(
        index=False,
        escape=False,
        caption=_escaped(_caption(comparison)),
        column_format="l" + "r" * (len(frame.columns) - 1),
    )


def _frame(comparison: Comparison, main: str = MAIN) -> pd.DataFrame:
    """Return a table of texts: the main metric with its difference, interval and verdict, then the other metrics."""
    others = [name for name in comparison.metrics if name != main]
    lines = []
    for row in comparison.rows:
        cell = comparison.line(row, main)
        span = f"[{cell['low']:+.4f}, {cell['high']:+.4f}]" if math.isfinite(cell["low"]) else ""
        line = {"row": row, main: number(cell["value"]), "difference": signed(cell["delta"])}
        line |= {"95 % interval": span, "verdict": cell["verdict"]}
        lines.append(line | {name: number(comparison.line(row, name)["value"]) for name in others})
    return pd.DataFrame(lines)


def _caption(comparison: Comparison) -> str:
    role = "test" if comparison.role == "test" else "validation"
    return (
        f"{comparison.title}: {comparison.n_rows} {role} rows, means over {len(comparison.seeds)} seeds, differences "
        f"from {comparison.baseline}. Verdicts are corrected for the number of rows (Holm)."
    )


def _cell(text: str) -> str:
    return one_line(str(text)).replace("\\", "\\\\").replace("|", "\\|")


def _escaped(text: str) -> str:
    r"""Escape the characters that LaTeX reads as commands.

    >>> _escaped("macro_f1 of 50 %")
    'macro\\_f1 of 50 \\%'
    """
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(special.get(c, f"\\{c}" if c in "&%$#_{}" else c) for c in one_line(str(text)))
