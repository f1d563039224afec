"""`frostbench views make | list | show`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from frostbench.app.commands.common import Device, Weights

app = typer.Typer(help="Make, list and look at view sets: augmented images, embedded once.", no_args_is_help=True)
Cache = Annotated[Path, typer.Argument(help="Folder of the cache.")]
Policy = Annotated[
    str,
    typer.Option(
        help="flip, crops, random_crop, colour_jitter, rand_augment, auto_augment, trivial_augment, cutmix, "
        "superpixel_mix or transplant."
    ),
]
Changes = Annotated[
    list[str] | None, typer.Option("--set", help="A setting of the policy as NAME=VALUE; docs/views.md lists them.")
]


@app.command()
def make(
    cache: Cache,
    name: Annotated[str, typer.Argument(help="Name of the view set.")],
    policy: Policy,
    changes: Changes = None,
    count: Annotated[int, typer.Option(help="Views of each image.")] = 1,
    role: Annotated[
        Literal["train", "eval"], typer.Option(help="train: of training rows; eval: of all others, to average over.")
    ] = "train",
    bench: Annotated[
        Path | None, typer.Option(help="Bench whose split says which rows train; the default split if left out.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of everything that is drawn.")] = 0,
    weights: Weights = None,
    device: Device = "cpu",
    batch: Annotated[
        int | None, typer.Option(min=1, help="Images in one forward pass; by the device if left out.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Decoding threads; one for each core if left out.")] = None,
) -> None:
    """Embed views of a cache's images beside it, to train on or to average predictions over."""
    from frostbench.app.actions.viewing import make_set

    make_set(
        cache,
        name,
        policy,
        changes or [],
        count=count,
        role=role,
        bench=bench,
        seed=seed,
        weights=weights,
        device=device,
        batch=batch,
        workers=workers,
    )


@app.command("list")
def list_(cache: Cache) -> None:
    """List the view sets of a cache, with how they were made."""
    from frostbench.app.actions.viewing import listed

    for line in listed(cache):
        print(line)


@app.command()
def show(
    images: Annotated[list[Path], typer.Argument(help="Image files; policies of two images take the next as partner.")],
    policy: Policy,
    out: Annotated[Path, typer.Option(help="PNG file to write.")],
    changes: Changes = None,
    count: Annotated[int, typer.Option(help="Views of each image.")] = 4,
    seed: Annotated[int, typer.Option(help="Of everything that is drawn.")] = 0,
) -> None:
    """Draw each image with some of its views, to see what a policy does before it is embedded."""
    from frostbench.app.actions.viewing import draw

    draw(images, policy, changes or [], out, count=count, seed=seed)
    print(out)
