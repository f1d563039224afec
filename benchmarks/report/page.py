"""Render self-contained HTML pages from the templates in this folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from frostbench.benchmarks.report.svg import CHART_CSS
from frostbench.benchmarks.settings.nouns import noun_for, with_noun
from frostbench.embedcache.outputs.writing import write_bytes


def write_page(template: str, values: Mapping[str, Any], out: Path) -> Path:
    """Write a page that loads no other file or server, and return its path.

    Args:
        template: file name of the template.
        values: template variables; text is escaped, charts are `Markup`.
        out: the HTML file.
    """
    loader = PackageLoader("frostbench.benchmarks.report", ".")
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    pages.filters |= {"with_noun": with_noun, "noun_for": noun_for}
    html = pages.get_template(template).render({**values, "chart_css": Markup(CHART_CSS)})
    write_bytes(out, html.encode("utf-8", "replace"))
    return out
