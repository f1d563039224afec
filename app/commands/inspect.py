"""`frostbench inspect neighbours | duplicates | leaks | suspects | balance | map`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from frostbench.app.commands.cache import Cache
from frostbench.app.commands.common import Device, Weights

app = typer.Typer(help="What the vectors of a cache are good for before anything is trained.", no_args_is_help=True)

Column = Annotated[str | None, typer.Option(help="Whose vectors count; the first by name if left out.")]
Method = Annotated[
    Literal["auto", "exact", "ivf"],
    typer.Option(help="exact compares all; ivf, an inverted file, is faster and may miss some; auto: by the rows."),
]
Out = Annotated[Path | None, typer.Option(help="Write the whole table to a .csv, .parquet or .json file.")]
Split = Annotated[
    list[str] | None, typer.Option("--split", help="OPTION=VALUE of the split, such as duplicates=0.98; repeat.")
]
Threshold = Annotated[float, typer.Option(help="Cosine from which two images are near-copies.")]


@app.command()
def neighbours(
    cache: Cache,
    ids: Annotated[list[str] | None, typer.Option("--id", help="Row to find the neighbours of; repeat.")] = None,
    images: Annotated[
        list[Path] | None, typer.Option("--image", help="Image file to find the neighbours of; repeat.")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbours of each.")] = 10,
    column: Column = None,
    method: Method = "auto",
    weights: Weights = None,
    device: Device = "cpu",
    out: Out = None,
) -> None:
    """The rows nearest to some rows, to image files, or (with --out) to each row, by cosine."""
    from frostbench.app.actions.inspecting import tell_neighbours

    tell_neighbours(cache, ids or [], images or [], k, column, method, weights, device, out)


@app.command()
def duplicates(
    cache: Cache, threshold: Threshold = 0.98, column: Column = None, method: Method = "auto", out: Out = None
) -> None:
    """Groups of byte-identical images and of near-copies."""
    from frostbench.app.actions.inspecting import tell_duplicates

    tell_duplicates(cache, threshold, column, method, out)


@app.command()
def leaks(
    cache: Cache,
    threshold: Threshold = 0.98,
    split: Split = None,
    column: Column = None,
    method: Method = "auto",
    out: Out = None,
) -> None:
    """Held-out rows with a copy in training, and copies with different labels (in a second file with --out)."""
    from frostbench.app.actions.inspecting import tell_leaks

    tell_leaks(cache, threshold, split or [], column, method, out)


@app.command()
def suspects(
    cache: Cache,
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbours that vote.")] = 20,
    folds: Annotated[int, typer.Option(min=2, help="Parts of the rows; each is judged by the others.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Of the folds.")] = 42,
    column: Column = None,
    method: Method = "auto",
    out: Out = None,
) -> None:
    """Labels that the other rows speak against, the most suspicious first."""
    from frostbench.app.actions.inspecting import tell_suspects

    tell_suspects(cache, k, folds, seed, column, method, out)


@app.command()
def balance(
    cache: Cache,
    split: Split = None,
    least: Annotated[int, typer.Option(min=1, help="Classes with fewer rows or groups are warned of.")] = 5,
    out: Out = None,
) -> None:
    """Rows and groups of each class, by role, and which classes are too small."""
    from frostbench.app.actions.inspecting import tell_balance

    tell_balance(cache, split or [], least, out)


@app.command("map")
def draw_map(
    cache: Cache,
    method: Annotated[
        Literal["pca", "umap"], typer.Option(help="Principal components, or UMAP (frostbench[umap]).")
    ] = "pca",
    column: Column = None,
    seed: Annotated[int, typer.Option(min=0, help="Of UMAP.")] = 42,
    out: Annotated[
        Path | None, typer.Option(help="Draw an .html or .svg file, or write a .csv, .parquet or .json table.")
    ] = None,
) -> None:
    """A map of all rows in two dimensions, computed once and kept in the cache."""
    from frostbench.app.actions.inspecting import tell_map

    tell_map(cache, method, column, seed, out)
