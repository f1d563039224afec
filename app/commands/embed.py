"""`frostbench embed`."""

from pathlib import Path
from typing import Annotated

import typer

from app.progress import bar, note, resumable
from embedcache.backbones import Backbone, load_backbone
from embedcache.decode import PIXEL_LIMIT
from embedcache.events import BatchDone, Finished, Started
from embedcache.extract import extract
from embedcache.sources import Listing, list_source

Source = Annotated[Path, typer.Argument(help="Folder of class folders, or a CSV or Parquet manifest.")]
Cache = Annotated[Path, typer.Option("--cache", help="Folder of the cache; an unfinished one is continued.")]


def embed(
    source: Source,
    cache: Cache,
    backbone: Annotated[
        str, typer.Option(help="PROVIDER:MODEL, such as timm:vit_base_patch16_dinov3.lvd1689m.")
    ] = "bundled:efficientnet_lite0",
    pool: Annotated[list[str] | None, typer.Option(help="cls, patch_mean or avg; repeat for several.")] = None,
    size: Annotated[int | None, typer.Option(help="Side of the backbone's input in pixels.")] = None,
    weights: Annotated[Path | None, typer.Option(help="Weights file, instead of the hub (timm).")] = None,
    root: Annotated[Path | None, typer.Option(help="Where relative paths of a manifest start.")] = None,
    group_regex: Annotated[str | None, typer.Option(help="Takes each image's group from its path.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
    autocast: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
    batch: Annotated[
        int | None, typer.Option(help="Images in one forward pass; by default what suits the device.")
    ] = None,
    shard_rows: Annotated[int, typer.Option(help="Images in one shard, the most that a kill costs.")] = 4096,
    workers: Annotated[int | None, typer.Option(help="Decoding threads; one for each core by default.")] = None,
    pixel_limit: Annotated[int, typer.Option(help="Largest width times height that is decoded.")] = PIXEL_LIMIT,
    strict: Annotated[bool, typer.Option("--strict", help="Fail at the end if an image was quarantined.")] = False,
) -> None:
    """Embed images once with a frozen backbone, and keep the vectors in a cache."""
    provider, colon, model = backbone.partition(":")
    if not colon or not model:
        raise ValueError(f"a backbone is named PROVIDER:MODEL, however: {backbone!r} came. Try timm:{backbone}.")
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
        pixel_limit=pixel_limit,
        strict=strict,
    )


def embed_listing(
    listing: Listing,
    backbone: Backbone,
    cache: Path,
    *,
    batch: int | None = None,
    shard_rows: int = 4096,
    workers: int | None = None,
    pixel_limit: int = PIXEL_LIMIT,
    strict: bool = False,
) -> Finished | None:
    """Embed with a progress bar; None where it was stopped."""
    tell_recipe(backbone)
    events = extract(
        listing,
        backbone,
        cache,
        shard_rows=shard_rows,
        batch=batch,
        workers=workers,
        pixel_limit=pixel_limit,
        strict=strict,
    )
    end = None
    with resumable("finished shards are kept."), bar("embedding") as progress:
        for event in events:
            if isinstance(event, Started):
                for warning in event.warnings:
                    note(warning)
                progress.move(event.n_done, event.n_listed)
            elif isinstance(event, BatchDone):
                progress.move(event.n_done, event.n_listed)
            elif isinstance(event, Finished):
                end = event
    if end is not None:
        print(
            f"{cache}: {end.n_ok} of {end.n_listed} images embedded, {end.n_bad} quarantined, "
            f"{end.images_per_second:.0f} images/s"
        )
    return end


def tell_recipe(backbone: Backbone) -> None:
    """Show what is about to be computed, resolved completely."""
    for name, recipe in backbone.recipes.items():
        fields = recipe.model_dump(mode="json", exclude={"version"})
        print(f"column {name} [{backbone.dims[name]}], recipe {recipe.hash}")
        if name == next(iter(backbone.recipes)):
            print("  " + ", ".join(f"{field} {_short(value)}" for field, value in fields.items()))


def _short(value: object) -> str:
    text = str(value)
    return f"{text[:12]}…" if len(text) == 64 else text
