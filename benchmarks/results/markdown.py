"""Lines of Markdown tables, and pages whose lower part is generated."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from frostbench.embedcache.outputs.writing import write_text


def table_head(first: str, names: Sequence[str]) -> list[str]:
    """Return the first two lines of a table; all columns except the first are aligned to the right."""
    return [table_line([first, *names]), table_line(["---", *["---:"] * len(names)])]


def table_line(cells: Iterable[str]) -> str:
    """Return a line of a table."""
    return "| " + " | ".join(cells) + " |"


def write_below(page: Path, marker: str, title: str, lines: Iterable[str]) -> Path:
    """Write lines below the marker of a page and return its path; the text above is kept, or is a title at first."""
    above = page.read_text(encoding="utf-8").split(marker)[0] if page.is_file() else f"# {title}\n\n"
    page.parent.mkdir(parents=True, exist_ok=True)
    write_text(page, above + marker + "\n\n" + "\n".join(lines).rstrip("\n") + "\n")
    return page
