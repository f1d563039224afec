"""`frostbench options`."""

from typing import Annotated

import typer


def options(
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the page docs/options.md.")] = False,
) -> None:
    """List every option of a run. Shows default, bounds and what the option does."""
    from frostbench.app.actions.options import ROOTS, options_text
    from frostbench.benchmarks.settings.options import options_markdown

    print(options_markdown(ROOTS) if markdown else options_text(), end="")
