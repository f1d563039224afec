"""`frostbench embed`."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from frostbench.app.commands.common import Device, Weights


def embed(
    source: Annotated[
        Path,
        typer.Argument(
            help="Folder of class folders, manifest, Parquet with images, saved Hugging Face dataset, or "
            "ultra-fine-grained set; see docs/sources.md."
        ),
    ],
    cache: Annotated[Path, typer.Option("--cache", help="Folder of the cache; an unfinished one is continued.")],
    backbone: Annotated[
        list[str] | None,
        typer.Option(
            help="PROVIDER:MODEL, such as timm:vit_base_patch16_dinov3.lvd1689m; `frostbench backbones` lists some. "
            "Repeat, or write NAME=PROVIDER:MODEL, for several from one decode. "
            "[default: bundled:efficientnet_lite0]"
        ),
    ] = None,
    pool: Annotated[list[str] | None, typer.Option(help="cls, patch_mean, avg …; repeat for several.")] = None,
    size: Annotated[
        list[int] | None, typer.Option(help="Side of the backbone's input in pixels; repeat for several.")
    ] = None,
    weights: Weights = None,
    preparation: Annotated[
        Path | None,
        typer.Option(
            help="YAML or JSON file with size, crop, crop_fraction, interpolation, mean, std, where they are not to be "
            "the model's own, and intensity_range."
        ),
    ] = None,
    intensity_range: Annotated[
        str | None,
        typer.Option(
            help="LOW:HIGH: grey values of images of more than 8 bits that become black and white, such as 0:4095 for "
            "12-bit data in 16-bit files; part of the recipe. [default: all 16 bits]"
        ),
    ] = None,
    root: Annotated[Path | None, typer.Option(help="Where relative paths of a manifest start.")] = None,
    group_regex: Annotated[str | None, typer.Option(help="Takes each image's group from its path.")] = None,
    time_regex: Annotated[
        str | None, typer.Option(help="Takes each image's time, as an ISO date, from its path.")
    ] = None,
    image_column: Annotated[
        str | None, typer.Option(help="Column of the images, where a table or dataset has several.")
    ] = None,
    label_column: Annotated[str | None, typer.Option(help="Column of the labels, likewise.")] = None,
    device: Device = "cpu",
    autocast: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
    batch: Annotated[
        int | None, typer.Option(min=1, help="Images in one forward pass; by the device if left out.")
    ] = None,
    shard_rows: Annotated[int, typer.Option(min=1, help="Images in one shard, the most that a kill costs.")] = 4096,
    workers: Annotated[int | None, typer.Option(min=1, help="Decoding threads; one for each core if left out.")] = None,
    pixel_limit: Annotated[
        int | None, typer.Option(min=1, help="Largest width times height that is decoded; 89,478,485 if left out.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail at the end if an image was quarantined.")] = False,
    update: Annotated[
        bool, typer.Option("--update", help="Bring the cache to a changed source: only new and changed images embed.")
    ] = False,
    compiled: Annotated[bool, typer.Option("--compile", help="Run the backbone through torch.compile.")] = False,
    shard: Annotated[
        str | None, typer.Option(help="I/N: only every N-th shard from I (0 to N-1), beside N-1 other processes.")
    ] = None,
    engine: Annotated[str, typer.Option(help="local, or ray: actors of Ray embed; see docs/scale.md.")] = "local",
    actors: Annotated[int, typer.Option(help="With --engine ray: processes that embed at once.")] = 1,
    ray_address: Annotated[
        str | None, typer.Option(help="With --engine ray: a running cluster; auto finds it. Left out, one starts here.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Store patch tokens without being asked.")] = False,
) -> None:
    """Embed images once with a frozen backbone, and keep the vectors in a cache."""
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
