"""`frostbench texts`."""

from pathlib import Path
from typing import Annotated

import typer

from frostbench.app.commands.common import Device, Weights


def texts(
    cache: Annotated[Path, typer.Argument(help="Folder of a cache with a column of pooling projection.")],
    out: Annotated[Path, typer.Option(help="The .npz file to write.")],
    template: Annotated[
        list[str] | None,
        typer.Option(help="Sentence with {} for the class name; repeat for several. [default: a photo of a {}.]"),
    ] = None,
    column: Annotated[str | None, typer.Option(help="The column, where the cache has several projections.")] = None,
    weights: Weights = None,
    device: Device = "cpu",
) -> None:
    """Embed the class names of a cache with the text tower of its backbone: a zero-shot head, or a start for others."""
    from frostbench.app.actions.texts import write_texts

    for line in write_texts(cache, out, template or (), column, weights, device):
        print(line)
