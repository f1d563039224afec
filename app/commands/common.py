"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1 …")]
Plugins = Annotated[
    list[Path] | None, typer.Option("--plugin", help="Python file with losses or heads of your own; it is run. Repeat.")
]
Stream = Annotated[
    Literal["auto", "always", "never"],
    typer.Option(help="Whether vectors stay on disk while heads train: where they do not fit into memory, or as said."),
]
Weights = Annotated[Path | None, typer.Option(help="File or folder of the backbone's weights, instead of the hub.")]
Refit = Annotated[
    bool | None,
    typer.Option(
        "--refit/--no-refit",
        help="Whether what is exported is trained anew on training and selection rows; default: if possible.",
    ),
]
