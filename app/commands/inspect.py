"""`frostbench inspect neighbours | duplicates | leaks | suspects | balance | map`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from frostbench.app.commands.cache import Cache
from frostbench.app.commands.common import Device, Weights

app = typer.Typer(
    help="Inspect a cache before training.",
    no_args_is_help=True,
)

Column = Annotated[str | None, typer.Option(help="Vector column to use. [default: the first by name]")]
Method = Annotated[
    Literal["auto", "exact", "ivf"],
    typer.Option(
        help="exact: compare all pairs; ivf: inverted-file index, faster but may miss pairs; auto: by row count."
    ),
]
Out = Annotated[Path | None, typer.Option(help="Write the full table to a .csv, .parquet or .json file.")]
Split = Annotated[
    list[str] | None, typer.Option("--split", help="OPTION=VALUE of the split, such as duplicates=0.98. Repeatable.")
]
Threshold = Annotated[float, typer.Option(help="Cosine similarity from which two images count as near-duplicates.")]


@app.command()
def neighbours(
    cache: Cache,
    ids: Annotated[list[str] | None, typer.Option("--id", help="ID of a query row. Repeatable.")] = None,
    images: Annotated[list[Path] | None, typer.Option("--image", help="Query image file. Repeatable.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbours per query.")] = 10,
    column: Column = None,
    method: Method = "auto",
    weights: Weights = None,
    device: Device = "cpu",
    out: Out = None,
) -> None:
    """Find nearest neighbours by cosine. Queries are rows, image files, or (with --out) all rows."""
    from frostbench.app.actions.inspecting import print_neighbours

    print_neighbours(cache, ids or [], images or [], k, column, method, weights, device, out)


@app.command()
def duplicates(
    cache: Cache, threshold: Threshold = 0.98, column: Column = None, method: Method = "auto", out: Out = None
) -> None:
    """Find groups of byte-identical and near-duplicate images."""
    from frostbench.app.actions.inspecting import print_duplicates

    print_duplicates(cache, threshold, column, method, out)


@app.command()
def leaks(
    cache: Cache,
    threshold: Threshold = 0.98,
    split: Split = None,
    column: Column = None,
    method: Method = "auto",
    out: Out = None,
) -> None:
    """Find held-out rows with a duplicate in training. Also finds duplicates with different labels."""
    from frostbench.app.actions.inspecting import print_leaks

    print_leaks(cache, threshold, split or [], column, method, out)


@app.command()
def suspects(
    cache: Cache,
    k: Annotated[
        int, typer.Option("-k", min=1, help="Number of neighbours whose votes for a label are shown as agreement.")
    ] = 20,
    folds: Annotated[int, typer.Option(min=2, help="Cross-validation folds.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the folds.")] = 42,
    column: Column = None,
    method: Method = "auto",
    out: Out = None,
) -> None:
    """Find likely label errors. Ranks rows by the probability of their label, by ridge regression on other folds."""
    from frostbench.app.actions.inspecting import print_suspects

    print_suspects(cache, k, folds, seed, column, method, out)


@app.command()
def balance(
    cache: Cache,
    split: Split = None,
    least: Annotated[int, typer.Option(min=1, help="Warn about classes with fewer rows or groups than this.")] = 5,
    out: Out = None,
) -> None:
    """Count rows and groups per class, and rows per role. Warns about classes that are too small."""
    from frostbench.app.actions.inspecting import print_balance

    print_balance(cache, split or [], least, out)


@app.command("map")
def draw_map(
    cache: Cache,
    method: Annotated[
        Literal["pca", "umap"],
        typer.Option(help="Projection: principal components, or UMAP (needs frostbench[umap])."),
    ] = "pca",
    column: Column = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of UMAP.")] = 42,
    out: Annotated[
        Path | None,
        typer.Option(help="Drawing (.html or .svg) or table of coordinates (.csv, .parquet or .json) to write."),
    ] = None,
) -> None:
    """Project all rows to two dimensions. The map is computed once and stored in the cache."""
    from frostbench.app.actions.inspecting import make_map

    make_map(cache, method, column, seed, out)
