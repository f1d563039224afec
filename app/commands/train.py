"""`frostbench train`."""

from pathlib import Path
from typing import Annotated

import typer

from frostbench.app.commands.common import Device, Labels, Plugins, Refit, Stream


def train(
    cache: Annotated[Path, typer.Argument(help="Folder of the cache.")],
    preset: Annotated[
        str | None,
        typer.Option(
            help="Preset to start from: plain, baseline, full, or a method such as arcface; auto chooses one by "
            "cross-validation on the training rows. [default: auto, or baseline if --set changes the training]"
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="OPTION=VALUE that overrides the preset; see `frostbench options`. Repeatable."),
    ] = None,
    split: Annotated[
        list[str] | None, typer.Option("--split", help="OPTION=VALUE of the split, such as folds=5. Repeatable.")
    ] = None,
    labels: Labels = None,
    seed: Annotated[int, typer.Option(help="Seed of initialisation, batch order and dropout.")] = 0,
    store: Annotated[str, typer.Option(help="Folder of the run store.")] = "results",
    out: Annotated[Path | None, typer.Option(help="New folder for the exported head. [default: no export]")] = None,
    refit: Refit = None,
    simple: Annotated[
        bool | None,
        typer.Option(
            "--compare-simple/--no-compare-simple",
            help="Cross-validate lda, logreg and ridge for comparison. [default: if that is quick, not for auto]",
        ),
    ] = None,
    device: Device = "cpu",
    plugins: Plugins = None,
    stream: Stream = "auto",
) -> None:
    """Train one head on a cache and print its validation metrics."""
    from frostbench.app.actions.benches import train_one

    train_one(
        cache,
        preset,
        overrides or [],
        seed,
        store,
        out,
        device,
        plugins or [],
        split or [],
        stream,
        refit=refit,
        simple=simple,
        labels=labels,
    )
