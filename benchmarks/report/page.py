"""Pages: one self-contained HTML file each, from a template beside this file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from frostbench.benchmarks.report.svg import CHART_CSS
from frostbench.embedcache.outputs.writing import write_bytes


def write_page(template: str, values: Mapping[str, Any], out: Path) -> Path:
    """Write a page that asks no other file or server for anything; returns where.

    Args:
        template: file name of the template.
        values: what it shows; text is escaped, and a chart is `Markup`.
        out: the HTML file.
    """
    loader = PackageLoader("frostbench.benchmarks.report", ".")
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    html = pages.get_template(template).render({**values, "chart_css": Markup(CHART_CSS)})
    write_bytes(out, html.encode("utf-8", "replace"))
    return out
