"""Looking at photos before they are embedded; runs in a process of its own, which imports torch.

The functions are called through `frostbench.app.workbench.predict.process`.
"""

import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from frostbench.app.actions.loading import load_backbones
from frostbench.app.workbench.photos.sources import list_photos, some_of
from frostbench.embedcache.backbones import Backbone
from frostbench.embedcache.backbones.catalogue import find_known, how_to_get, is_at_hand
from frostbench.embedcache.extraction.events import BatchDone, Finished, Started
from frostbench.embedcache.extraction.extract import extract
from frostbench.embedcache.items import Listing
from frostbench.embedcache.storage.store import read_bad

MEASURED = 96
"""Largest number of images that are embedded to measure the time."""
SECONDS = 6.0
"""Time after which no further batch is embedded to measure it."""
WITHOUT_FIRST = 3
"""Number of batches from which on the first one, during which decoding begins, is left out."""


def backbones() -> list[dict[str, Any]]:
    """Return the backbones of the catalogue, those first that work without the network.

    Each has name, dim, size, licence, `here` (whether its weights are on this machine) and `how` (how to get them).
    """
    found = [
        {"name": known.name, "dim": known.dim, "size": known.size, "licence": known.licence}
        | {"here": is_at_hand(known), "how": how_to_get(known)}
        for known in find_known()
    ]
    return sorted(found, key=lambda one: not one["here"])


def look(root: Path, name: str, group_regex: str) -> dict[str, Any]:
    """Return what a folder holds: source, images, classes with their images, groups and notes.

    Raises:
        ValueError: the folder cannot be listed, or an image is outside the root.
    """
    try:
        source, listing = list_photos(root, name, group_regex)
    except ModuleNotFoundError as error:
        raise ValueError(str(error)) from error
    counts = Counter(item.label for item in listing.items)
    groups = {item.group for item in listing.items if item.group is not None}
    return {
        "source": source.as_posix(),
        "description": listing.description,
        "images": len(listing.items),
        "classes": [[label, counts[label]] for label in listing.class_names],
        "groups": len(groups),
        "notes": list(listing.warnings),
    }


def measure(root: Path, name: str, group_regex: str, backbone: str, device: str, scratch: Path) -> dict[str, Any]:
    """Embed a few of the images into a temporary folder, and estimate the time for all of them.

    Args:
        root: folder of the page.
        name: folder of the photos below it.
        group_regex: as for `look`.
        backbone: PROVIDER:MODEL.
        device: device of the backbone.
        scratch: folder for the temporary folder.

    Returns:
        `seconds` for all images, `rate` in images per second, `measured` images, `unreadable` ones of these,
        `loading` seconds, and `column` (dimension and side of the input, in words); or `error`.
    """
    try:
        started = time.perf_counter()
        loaded = load_backbones([backbone], (), device=device)
        loading = time.perf_counter() - started
    # Providers raise errors of many kinds, some of which cannot be sent to another process.
    except Exception as error:
        return {"error": f"{backbone} cannot be loaded: {error}"}
    try:
        _, listing = list_photos(root, name, group_regex)
        return _measured(listing, loaded, scratch) | {"loading": round(loading, 1), "column": _describe(loaded)}
    except Exception as error:
        return {"error": f"{backbone} cannot embed these photos: {error}"}


def _measured(listing: Listing, loaded: dict[str, Backbone], scratch: Path) -> dict[str, Any]:
    sample = some_of(listing, MEASURED)
    times, unreadable = [(0, time.perf_counter())], 0
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        cache = Path(folder) / "cache"
        for event in extract(sample, loaded, cache, stop=lambda: time.perf_counter() > times[0][1] + SECONDS):
            if isinstance(event, Started):
                times[0] = (0, time.perf_counter())
            elif isinstance(event, BatchDone):
                times.append((event.n_done, time.perf_counter()))
            elif isinstance(event, Finished):
                unreadable = event.n_bad
                if not event.n_ok:
                    raise ValueError(f"none of {event.n_listed} could be read, {read_bad(cache, 0)[0]['reason']}.")
    begin, end = times[1 if len(times) > WITHOUT_FIRST else 0], times[-1]
    rate = (end[0] - begin[0]) / max(1e-6, end[1] - begin[1])
    seconds = round(len(listing.items) / rate, 1)
    return {"seconds": seconds, "rate": round(rate, 2), "measured": end[0], "unreadable": unreadable}


def _describe(loaded: dict[str, Backbone]) -> str:
    (backbone,) = loaded.values()
    widths = " and ".join(f"{dim:,}" for dim in backbone.dims.values())
    return f"{widths} numbers per image, {backbone.recipe.size} px"
