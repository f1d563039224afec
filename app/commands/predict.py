"""`frostbench predict`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from frostbench.app.commands.common import Device, Plugins, Weights

if TYPE_CHECKING:
    import pandas as pd

Decisions = Literal["tuned", "argmax"]


def predict(
    bundle: Annotated[Path, typer.Argument(help="Folder of an exported head.")],
    images: Annotated[list[Path], typer.Argument(help="Image files, folders of images, or one cache.")],
    out: Annotated[
        Path | None, typer.Option(help="Write a .csv, .json or .parquet file with one column per class.")
    ] = None,
    prior: Annotated[
        str,
        typer.Option(help="Class prior to predict for: trained, uniform, or a YAML or JSON file of `class: share`."),
    ] = "trained",
    decisions: Annotated[
        Decisions,
        typer.Option(help="tuned: apply the head's thresholds and shifts, if any; argmax: most probable class."),
    ] = "tuned",
    plugins: Plugins = None,
    weights: Weights = None,
    device: Device = "cpu",
) -> None:
    """Predict classes with an exported head. Exits with status 1 if no image could be read."""
    from frostbench.app.actions.predicting import run_prediction
    from frostbench.app.progress import note
    from frostbench.benchmarks.inference.predict import check_predictions, write_predictions
    from frostbench.benchmarks.settings.nouns import with_noun
    from frostbench.embedcache.outputs.spreadsheets import formula_note

    if out is not None:
        check_predictions(out)
    table = run_prediction(bundle, images, prior, weights, device, decisions, plugins or [])
    unread = int(table["error"].notna().sum())
    if out is not None:
        write_predictions(table, out)
        print(f"{out}: {with_noun(len(table), 'image')}" + (f", {unread} of them could not be read" if unread else ""))
        if out.suffix.lower() == ".csv" and (warning := formula_note(table)):
            note(warning)
    else:
        _print(table)
    if unread == len(table):
        raise typer.Exit(1)


def _print(table: "pd.DataFrame") -> None:
    """Print one line per image, with line breaks and tabs in names escaped."""
    from frostbench.embedcache.names import one_line

    columns = table[["image", "class", "probability", "error"]]
    for image, name, probability, error in columns.itertuples(index=False):
        failed = isinstance(error, str)
        cells = [image, f"could not be read: {error}"] if failed else [image, name, f"{probability:.4f}"]
        print("\t".join(map(one_line, cells)))
