"""`frostbench views make | list | show`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from frostbench.app.commands.cache import Cache
from frostbench.app.commands.common import Batch, Device, Weights, Workers

app = typer.Typer(
    help="Make, list and draw view sets. A view set holds augmented versions of images, embedded once.",
    no_args_is_help=True,
)
Policy = Annotated[
    str,
    typer.Option(
        help="Augmentation policy: flip, crops, random_crop, colour_jitter, rand_augment, auto_augment, "
        "trivial_augment, cutmix, superpixel_mix or transplant."
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", help="Setting of the policy as NAME=VALUE; see docs/views.md. Repeatable."),
]
Seed = Annotated[int, typer.Option(help="Seed of the augmentations.")]


@app.command()
def make(
    cache: Cache,
    name: Annotated[str, typer.Argument(help="Name of the view set.")],
    policy: Policy,
    changes: Changes = None,
    count: Annotated[int, typer.Option(help="Views per image.")] = 1,
    role: Annotated[
        Literal["train", "eval"],
        typer.Option(help="train: views of training rows; eval: views of all other rows, to average predictions over."),
    ] = "train",
    bench: Annotated[
        Path | None, typer.Option(help="Bench file whose split defines the roles. [default: the default split]")
    ] = None,
    seed: Seed = 0,
    weights: Weights = None,
    device: Device = "cpu",
    batch: Batch = None,
    workers: Workers = None,
) -> None:
    """Embed augmented views of a cache's images. Use them for training or for test-time averaging."""
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
    """List the view sets of a cache with their settings."""
    from frostbench.app.actions.viewing import view_set_lines

    for line in view_set_lines(cache):
        print(line)


@app.command()
def show(
    images: Annotated[
        list[Path], typer.Argument(help="Image files; policies that mix two images pair each with the next.")
    ],
    policy: Policy,
    out: Annotated[Path, typer.Option(help="PNG file to write.")],
    changes: Changes = None,
    count: Annotated[int, typer.Option(help="Views per image.")] = 4,
    seed: Seed = 0,
) -> None:
    """Draw images beside their views. Use it to check a policy before embedding."""
    from frostbench.app.actions.viewing import draw

    draw(images, policy, changes or [], out, count=count, seed=seed)
    print(out)
