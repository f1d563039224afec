"""`frostbench demo`."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def demo(
    data: Annotated[
        Literal["solar", "digits"],
        typer.Option(help="solar: solar cells (elpv-dataset); digits: a quick smoke test."),
    ] = "solar",
    out: Annotated[Path, typer.Option(help="Folder for all output of the demo.")] = Path("frostbench-demo"),
) -> None:
    """Run the full workflow on real images: embed, train three seeds per setting, compare, export and predict."""
    from frostbench.app.actions.demo import run_demo

    run_demo(data, out)
