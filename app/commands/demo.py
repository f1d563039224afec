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
    """Run the full workflow on real images. Embeds, trains three seeds per setting, compares, exports and predicts."""
    from frostbench.app.actions.demo import run_demo

    run_demo(data, out)
