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
    images: Annotated[list[Path], typer.Argument(help="Image files, folders of them, or one cache.")],
    out: Annotated[
        Path | None, typer.Option(help="Write a .csv, .json or .parquet file with a column per class.")
    ] = None,
    prior: Annotated[str, typer.Option(help="trained, uniform, or a YAML or JSON file of `class: share`.")] = "trained",
    decisions: Annotated[
        Decisions,
        typer.Option(help="tuned: by the head's thresholds and shifts, if any; argmax: the largest probability."),
    ] = "tuned",
    plugins: Plugins = None,
    weights: Weights = None,
    device: Device = "cpu",
) -> None:
    """Predict the class of images with an exported head; exit status 1 if none could be read."""
    from frostbench.app.actions.predicting import predicted
    from frostbench.app.progress import note
    from frostbench.benchmarks.inference.predict import check_predictions, write_predictions
    from frostbench.embedcache.outputs.spreadsheets import formula_note

    if out is not None:
        check_predictions(out)
    table = predicted(bundle, images, prior, weights, device, decisions, plugins or [])
    unread = int(table["error"].notna().sum())
    if out is not None:
        write_predictions(table, out)
        print(f"{out}: {len(table)} images" + (f", {unread} of them could not be read" if unread else ""))
        if out.suffix.lower() == ".csv" and (told := formula_note(table)):
            note(told)
    else:
        _print(table)
    if unread == len(table):
        raise typer.Exit(1)


def _print(table: "pd.DataFrame") -> None:
    """A line for each image; line breaks and tabs in names are written as escapes."""
    from frostbench.embedcache.names import one_line

    shown = table[["image", "class", "probability", "error"]]
    for image, name, probability, error in shown.itertuples(index=False):
        failed = isinstance(error, str)
        cells = [image, f"could not be read: {error}"] if failed else [image, name, f"{probability:.4f}"]
        print("\t".join(map(one_line, cells)))
