"""`frostbench embed`."""

from pathlib import Path
from typing import Annotated

import typer

from app.commands.common import Device, Weights


def embed(
    source: Annotated[Path, typer.Argument(help="Folder of class folders, or a CSV or Parquet manifest.")],
    cache: Annotated[Path, typer.Option("--cache", help="Folder of the cache; an unfinished one is continued.")],
    backbone: Annotated[
        str, typer.Option(help="PROVIDER:MODEL, such as timm:vit_base_patch16_dinov3.lvd1689m.")
    ] = "bundled:efficientnet_lite0",
    pool: Annotated[list[str] | None, typer.Option(help="cls, patch_mean or avg; repeat for several.")] = None,
    size: Annotated[int | None, typer.Option(help="Side of the backbone's input in pixels.")] = None,
    weights: Weights = None,
    root: Annotated[Path | None, typer.Option(help="Where relative paths of a manifest start.")] = None,
    group_regex: Annotated[str | None, typer.Option(help="Takes each image's group from its path.")] = None,
    device: Device = "cpu",
    autocast: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
    batch: Annotated[int | None, typer.Option(help="Images in one forward pass; by the device if left out.")] = None,
    shard_rows: Annotated[int, typer.Option(help="Images in one shard, the most that a kill costs.")] = 4096,
    workers: Annotated[int | None, typer.Option(help="Decoding threads; one for each core if left out.")] = None,
    pixel_limit: Annotated[
        int | None, typer.Option(help="Largest width times height that is decoded; 89,478,485 if left out.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail at the end if an image was quarantined.")] = False,
) -> None:
    """Embed images once with a frozen backbone, and keep the vectors in a cache."""
    from app.actions.embedding import embed_listing
    from embedcache.backbones import load_backbone
    from embedcache.decode import PIXEL_LIMIT
    from embedcache.sources import list_source

    provider, colon, model = backbone.partition(":")
    if not colon or not model:
        near = "bundled" if backbone.startswith("efficientnet_lite") else "timm"
        raise ValueError(f"a backbone is named PROVIDER:MODEL, however: {backbone!r} came. Try {near}:{backbone}.")
    listing = list_source(source, root=root, group_regex=group_regex)
    loaded = load_backbone(
        provider, model, pooling=pool or (), size=size, weights=weights, device=device, autocast=autocast
    )
    embed_listing(
        listing,
        loaded,
        cache,
        batch=batch,
        shard_rows=shard_rows,
        workers=workers,
        pixel_limit=PIXEL_LIMIT if pixel_limit is None else pixel_limit,
        strict=strict,
    )
