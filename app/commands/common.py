"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1 …")]
Weights = Annotated[Path | None, typer.Option(help="Weights file of the backbone, instead of the hub (timm).")]
