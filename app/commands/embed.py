"""`frostbench embed`."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from frostbench.app.commands.common import Batch, Device, Weights, Workers


def embed(
    source: Annotated[
        Path,
        typer.Argument(
            help="A folder with one subfolder per class, a manifest, a Parquet file with images, a saved Hugging Face "
            "dataset, or an ultra-fine-grained dataset; see docs/sources.md."
        ),
    ],
    cache: Annotated[Path, typer.Option("--cache", help="Folder of the cache; an unfinished cache is resumed.")],
    backbone: Annotated[
        list[str] | None,
        typer.Option(
            help="PROVIDER:MODEL or NAME=PROVIDER:MODEL, such as timm:vit_base_patch16_dinov3.lvd1689m; "
            "`frostbench backbones` lists some. Repeatable: each image is decoded once for all. "
            "[default: bundled:efficientnet_lite0]"
        ),
    ] = None,
    pool: Annotated[list[str] | None, typer.Option(help="Pooling: cls, patch_mean, avg …. Repeatable.")] = None,
    size: Annotated[list[int] | None, typer.Option(help="Side of the backbone's input in pixels. Repeatable.")] = None,
    weights: Weights = None,
    preparation: Annotated[
        Path | None,
        typer.Option(
            help="YAML or JSON file that overrides the model's size, crop, crop_fraction, interpolation, mean or std, "
            "or sets intensity_range."
        ),
    ] = None,
    intensity_range: Annotated[
        str | None,
        typer.Option(
            help="LOW:HIGH: grey values mapped to black and white in images of more than 8 bits, such as 0:4095 for "
            "12-bit data in 16-bit files. Part of the recipe. [default: all 16 bits]"
        ),
    ] = None,
    root: Annotated[Path | None, typer.Option(help="Folder that relative paths of a manifest start from.")] = None,
    group_regex: Annotated[
        str | None, typer.Option(help="Regular expression that extracts each image's group from its path.")
    ] = None,
    time_regex: Annotated[
        str | None, typer.Option(help="Regular expression that extracts each image's ISO date from its path.")
    ] = None,
    image_column: Annotated[str | None, typer.Option(help="Image column, if the table or dataset has several.")] = None,
    label_column: Annotated[str | None, typer.Option(help="Label column, if the table or dataset has several.")] = None,
    device: Device = "cpu",
    autocast: Annotated[str, typer.Option(help="Precision: auto, float32, bfloat16 or float16.")] = "auto",
    batch: Batch = None,
    shard_rows: Annotated[
        int, typer.Option(min=1, help="Images per shard; an interruption loses at most one shard.")
    ] = 4096,
    workers: Workers = None,
    pixel_limit: Annotated[
        int | None,
        typer.Option(min=1, help="Largest width × height that is decoded, in pixels. [default: 89,478,485]"),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with an error at the end if an image was quarantined.")
    ] = False,
    update: Annotated[
        bool,
        typer.Option(
            "--update", help="Update the cache to a changed source; only new and changed images are embedded."
        ),
    ] = False,
    compiled: Annotated[bool, typer.Option("--compile", help="Compile the backbone with torch.compile.")] = False,
    shard: Annotated[
        str | None,
        typer.Option(help="I/N: embed only every N-th shard, starting at I (0 to N-1); N processes share the work."),
    ] = None,
    engine: Annotated[str, typer.Option(help="local, or ray to embed with Ray actors; see docs/scale.md.")] = "local",
    actors: Annotated[int, typer.Option(help="Number of Ray actors that embed in parallel (--engine ray).")] = 1,
    ray_address: Annotated[
        str | None,
        typer.Option(
            help="Ray cluster to use, or auto to find a running one (--engine ray). [default: start a local one]"
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Store patch tokens without asking for confirmation.")] = False,
) -> None:
    """Embed images with frozen backbones into a cache."""
    from frostbench.app.actions.dividing import chosen_engine, chosen_part
    from frostbench.app.actions.embedding import embed_listing
    from frostbench.app.actions.loading import load_backbones
    from frostbench.embedcache.decode import PIXEL_LIMIT
    from frostbench.embedcache.extraction.opening import check_cache_folder
    from frostbench.embedcache.outputs.places import check_folder
    from frostbench.embedcache.sources.source import list_source

    part = chosen_part(shard, update=update, engine=engine)
    listing = list_source(
        source,
        root=root,
        group_regex=group_regex,
        time_regex=time_regex,
        image_column=image_column,
        label_column=label_column,
    )
    check_cache_folder(cache, listing)
    check_folder(cache)
    make = partial(
        load_backbones,
        backbone or ["bundled:efficientnet_lite0"],
        size or (),
        pooling=pool or (),
        weights=weights,
        device=device,
        autocast=autocast,
        compiled=compiled,
        preparation=preparation,
        intensity_range=intensity_range,
    )
    loaded = make()
    embed_listing(
        listing,
        loaded,
        cache,
        batch=batch,
        shard_rows=shard_rows,
        workers=workers,
        pixel_limit=PIXEL_LIMIT if pixel_limit is None else pixel_limit,
        strict=strict,
        update=update,
        part=part,
        engine=chosen_engine(engine, make, actors=actors, device=device, workers=workers, address=ray_address),
        agreed=yes,
    )
