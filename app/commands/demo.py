"""`frostbench demo`."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def demo(
    data: Annotated[
        Literal["solar", "digits"], typer.Option(help="Solar cells (elpv-dataset), or digits as a quick smoke test.")
    ] = "solar",
    out: Annotated[Path, typer.Option(help="Folder for everything the demo makes.")] = Path("frostbench-demo"),
) -> None:
    """Images to a cache, settings over three seeds, an A/B table, a report, and the winner's predictions."""
    from frostbench.app.actions.demo import run_demo

    run_demo(data, out)
