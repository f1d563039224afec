"""Embedding with a progress bar."""

from pathlib import Path

from app.progress import bar, note, resumable
from embedcache.backbones import Backbone
from embedcache.decode import PIXEL_LIMIT
from embedcache.events import BatchDone, Finished, Started
from embedcache.extract import extract
from embedcache.sources import Listing
from embedcache.state import read_quarantine

QUARANTINE_SHOWN = 5


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
        _tell_end(cache, end)
    return end


def _tell_end(cache: Path, end: Finished) -> None:
    """What is in the cache now, and the first images that are not.

    Raises:
        ValueError: nothing could be embedded.
    """
    speed = f"{end.images_per_second:.0f} images/s" if end.n_worked else "nothing was left to do"
    print(f"{cache}: {end.n_ok} of {end.n_listed} images embedded, {end.n_bad} quarantined, {speed}")
    bad = read_quarantine(cache)
    for row in bad[:QUARANTINE_SHOWN]:
        print(f"  not embedded: {row['id']}: {row['reason']}")
    if len(bad) > QUARANTINE_SHOWN:
        print(f"  and {len(bad) - QUARANTINE_SHOWN} more: frostbench cache bad {cache}")
    if end.n_ok == 0:
        raise ValueError(
            f"a cache needs at least one image, however: none of the {end.n_listed} could be embedded. Is the source "
            "what you meant? Repair the files and run the same command again."
        )


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
