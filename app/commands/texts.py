"""`frostbench texts`."""

from pathlib import Path
from typing import Annotated

import typer

from frostbench.app.commands.common import Device, Weights


def texts(
    cache: Annotated[Path, typer.Argument(help="Folder of a cache with a projection column of an open_clip backbone.")],
    out: Annotated[Path, typer.Option(help=".npz file to write.")],
    template: Annotated[
        list[str] | None,
        typer.Option(help="Prompt with {} for the class name. Repeatable. [default: a photo of a {}.]"),
    ] = None,
    column: Annotated[str | None, typer.Option(help="Projection column to use, if the cache has several.")] = None,
    weights: Weights = None,
    device: Device = "cpu",
) -> None:
    """Embed class names with a text tower. The vectors make a zero-shot head or initialise other heads."""
    from frostbench.app.actions.texts import write_texts

    for line in write_texts(cache, out, template or (), column, weights, device):
        print(line)
