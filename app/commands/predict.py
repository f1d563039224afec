"""`frostbench predict`."""

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.inference import open_predictor, predict_images, read_prior, write_predictions
from embedcache.items import IMAGE_SUFFIXES


def predict(
    bundle: Annotated[Path, typer.Argument(help="Folder of an exported head.")],
    images: Annotated[list[Path], typer.Argument(help="Image files, or folders of them.")],
    out: Annotated[
        Path | None, typer.Option(help="Write a .csv, .json or .parquet file with a column per class.")
    ] = None,
    prior: Annotated[str, typer.Option(help="trained, uniform, or a YAML or JSON file of `class: share`.")] = "trained",
    weights: Annotated[Path | None, typer.Option(help="Weights file of the backbone, instead of the hub.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, mps.")] = "cpu",
) -> None:
    """Predict the class of images with an exported head."""
    files = [file for path in images for file in (images_below(path) if path.is_dir() else [path])]
    predictor = open_predictor(bundle, weights=weights, device=device)
    table = predict_images(predictor, files, prior=read_prior(prior, predictor.head))
    if out is not None:
        write_predictions(table, out)
        print(f"{out}: {len(table)} images, {int(table['error'].notna().sum())} of them could not be read")
        return
    for row in table.itertuples(index=False):
        image, name, probability, error = row[:4]
        print(f"{image}\t{name}\t{probability:.4f}" if error is None else f"{image}\tcould not be read: {error}")


def images_below(folder: Path) -> list[Path]:
    """Image files in a folder and below, sorted, without hidden ones.

    Raises:
        ValueError: there are none.
    """
    found = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in IMAGE_SUFFIXES
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    if not found:
        raise ValueError(f"a folder to predict must hold images, however: {folder} holds none. Is the path right?")
    return found
