"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Device = Annotated[str, typer.Option(help="Torch device: cpu, cuda, cuda:1 …")]
Plugins = Annotated[
    list[Path] | None,
    typer.Option("--plugin", help="Python file that defines losses or heads; its code is executed. Repeatable."),
]
Stream = Annotated[
    Literal["auto", "always", "never"],
    typer.Option(help="Read vectors from disk during training instead of loading them; auto: if they exceed memory."),
]
Weights = Annotated[
    Path | None, typer.Option(help="File or folder of backbone weights, used instead of downloading them.")
]
Batch = Annotated[int | None, typer.Option(min=1, help="Images per forward pass. [default: depends on the device]")]
Workers = Annotated[int | None, typer.Option(min=1, help="Decoding threads. [default: one per core]")]
Labels = Annotated[
    Path | None,
    typer.Option(help="CSV file of label corrections: id, old, new (empty: leave the image out); the cache stays."),
]
Refit = Annotated[
    bool | None,
    typer.Option(
        "--refit/--no-refit",
        help="Retrain on training and validation rows before the export. [default: if possible]",
    ),
]
