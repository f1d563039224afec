"""Embedding with a progress bar."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import typer

from frostbench.app.progress import bar, note, resumable
from frostbench.benchmarks.settings.nouns import with_noun
from frostbench.embedcache.decode import PIXEL_LIMIT
from frostbench.embedcache.extraction.backbone_group import BackboneGroup, backbone_group
from frostbench.embedcache.extraction.events import BatchDone, Embedder, Finished, PartFinished, Started
from frostbench.embedcache.extraction.extract import Engine, extract
from frostbench.embedcache.extraction.parts import Part
from frostbench.embedcache.names import one_line
from frostbench.embedcache.remarks import Remarks
from frostbench.embedcache.sources.source import Listing
from frostbench.embedcache.storage.state import read_quarantine

QUARANTINE_SHOWN = 5


def embed_listing(
    listing: Listing,
    backbone: Embedder | Mapping[str, Embedder],
    cache: Path,
    *,
    batch: int | None = None,
    shard_rows: int = 4096,
    workers: int | None = None,
    pixel_limit: int = PIXEL_LIMIT,
    strict: bool = False,
    update: bool = False,
    part: Part | None = None,
    engine: Engine | None = None,
    agreed: bool = False,
) -> Finished | None:
    """Embed a listing with a progress bar; return None if it was stopped or other parts are unfinished.

    `agreed` skips the confirmation before patch tokens are stored; the other arguments are those of `extract`.
    """
    members = backbone_group(backbone)
    print_recipe(members)
    check_disk(members, len(listing.items), cache, agreed)
    events = extract(
        listing,
        members,
        cache,
        shard_rows=shard_rows,
        batch=batch,
        workers=workers,
        pixel_limit=pixel_limit,
        strict=strict,
        update=update,
        part=part,
        engine=engine,
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
            elif isinstance(event, PartFinished):
                _print_part(cache, event)
            elif isinstance(event, Finished):
                end = event
    if end is not None:
        if part is None:
            _note_remarks(end.remarks)
        _print_summary(cache, end)
    return end


def _note_remarks(remarks: Remarks) -> None:
    for sentence in remarks.sentences():
        note(sentence)


def _print_part(cache: Path, part: PartFinished) -> None:
    left = f"shards left to other parts: {part.n_shards_left}"
    images = with_noun(part.n_listed, "image")
    print(f"{cache}: part {part.part} is done, {images} ({part.n_worked} in this run); {left}")
    _note_remarks(part.remarks)


def check_disk(members: BackboneGroup, images: int, cache: Path, agreed: bool) -> None:
    """Print the size of the vectors, check that they fit on the disk, and ask before patch tokens are stored.

    Raises:
        ValueError: the disk is too full, or confirmation is needed but standard input is not a terminal.
    """
    widths = {name: dim * members.tokens.get(name, 1) for name, dim in members.dims.items()}
    total = 2 * images * sum(widths.values())
    print(f"{with_noun(images, 'image')}, {_size(total)} of vectors")
    folder = next(folder for folder in (cache, *cache.absolute().parents) if folder.exists())
    free = shutil.disk_usage(folder).free
    if total > free and not (cache / "cache.json").exists():
        raise ValueError(
            f"The vectors need {_size(total)} of disk space, but only {_size(free)} are free at {folder}. Choose fewer "
            "columns or another disk."
        )
    if not members.tokens or agreed:
        return
    share = 2 * images * sum(widths[name] for name in members.tokens)
    usage = f"Patch tokens take {_size(share)} of the {_size(total)}."
    if not sys.stdin.isatty():
        raise ValueError(f"{usage} Storing them needs confirmation: add --yes.")
    typer.confirm(f"{usage} Store them?", abort=True)


def _size(count: int) -> str:
    """Format a number of bytes.

    >>> _size(3 * 2**30)
    '3.0 GiB'
    """
    for unit, step in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20)):
        if count >= step:
            return f"{count / step:.1f} {unit}"
    return f"{count / 2**10:.1f} KiB"


def _print_summary(cache: Path, end: Finished) -> None:
    """Print how many images the cache holds and the first ones that could not be embedded.

    Raises:
        ValueError: no image could be embedded.
    """
    speed = f"{end.images_per_second:.0f} images/s" if end.n_worked else "nothing was left to do"
    print(f"{cache}: {end.n_ok} of {with_noun(end.n_listed, 'image')} embedded, {end.n_bad} quarantined, {speed}")
    bad = read_quarantine(cache)
    for row in bad[:QUARANTINE_SHOWN]:
        print(one_line(f"  not embedded: {row['id']}: {row['reason']}"))
    if len(bad) > QUARANTINE_SHOWN:
        print(f"  and {len(bad) - QUARANTINE_SHOWN} more: frostbench cache bad {cache}")
    if end.n_ok == 0:
        raise ValueError(
            f"A cache needs at least one image, but 0 of {with_noun(end.n_listed, 'image')} could be embedded. Check "
            "that the source is the right one, repair the files, and run the same command again."
        )


def print_recipe(members: BackboneGroup) -> None:
    """Print the resolved recipe: every field of each backbone and the hash of each column."""
    for prefix, member in members.members.items():
        for index, (pooling, recipe) in enumerate(member.recipes.items()):
            name, count = members.column(prefix, pooling), member.tokens.get(pooling)
            shape = f"{member.dims[pooling]}" if count is None else f"{count} tokens × {member.dims[pooling]}"
            print(f"column {name} [{shape}], recipe {recipe.hash}")
            if index == 0:
                fields = recipe.model_dump(mode="json", exclude={"version"})
                print("  " + ", ".join(f"{field} {_short(value)}" for field, value in fields.items()))


def _short(value: object) -> str:
    text = str(value)
    return f"{text[:12]}…" if len(text) == 64 else text
