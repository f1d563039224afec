"""Lines of Markdown tables."""

from collections.abc import Iterable, Sequence


def table_head(first: str, names: Sequence[str]) -> list[str]:
    """Return the first two lines of a table; all columns except the first are aligned to the right."""
    return [table_line([first, *names]), table_line(["---", *["---:"] * len(names)])]


def table_line(cells: Iterable[str]) -> str:
    """Return a line of a table."""
    return "| " + " | ".join(cells) + " |"
