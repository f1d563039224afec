"""Opening of a cache for extraction: a new cache is described, and an existing one must match the request."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from frostbench.embedcache.canary import APART, apart, canary_image, canary_sha256
from frostbench.embedcache.extraction.backbone_group import BackboneGroup, backbone_group
from frostbench.embedcache.extraction.events import Embedder
from frostbench.embedcache.extraction.updating import adopt_listing
from frostbench.embedcache.items import Listing, escape_name
from frostbench.embedcache.recipe import Recipe, differences
from frostbench.embedcache.storage.layout import Layout, cut, lay_out
from frostbench.embedcache.storage.mark import remove_partial
from frostbench.embedcache.storage.own import HOLDER, LOCK, PARTIAL, PARTS, check_links, entries
from frostbench.embedcache.storage.staging import finish_update
from frostbench.embedcache.storage.state import read_cache, same_columns
from frostbench.embedcache.storage.store import (
    FORMAT_VERSION,
    READABLE_VERSIONS,
    CacheError,
    describe_columns,
    read_json,
    write_items,
    write_json,
)


def embed_canary(backbone: Embedder | Mapping[str, Embedder] | BackboneGroup) -> dict[str, np.ndarray]:
    """Embed the canary to one float32 vector [D] per vector column; if there are only token columns, to their means."""
    members = backbone_group(backbone)
    vectors = members.embed([members.prepare(canary_image())])
    plain = {name: value for name, value in vectors.items() if name not in members.tokens}
    plain = plain or {name: value.mean(dim=1) for name, value in vectors.items()}
    return {name: value[0].to(torch.float32).cpu().numpy() for name, value in plain.items()}


def open_cache(
    cache_dir: Path,
    listing: Listing,
    backbone: BackboneGroup,
    *,
    shard_rows: int,
    batch: int,
    pixel_limit: int,
    update: bool = False,
    tidy: bool = True,
) -> tuple[Layout, list[str]]:
    """Create cache.json and items.parquet of a new cache, or check or update those of an existing one.

    With `tidy`, partial files of killed processes are deleted, which requires that no other process is writing.

    Returns:
        The items by shard, and notes about a changed environment and about the changes of an update.

    Raises:
        CacheError: the cache has another recipe, shard size or pixel limit, or another listing without `update`, or the
            canary shows that the current environment gives different vectors.
    """
    finish_update(cache_dir)
    canary = embed_canary(backbone)
    requested = {
        "columns": describe_columns(backbone.recipes, backbone.dims, backbone.tokens),
        "shard_rows": shard_rows,
        "pixel_limit": pixel_limit,
    }
    provenance = dict(backbone.provenance) | {"batch": str(batch)}
    path = cache_dir / "cache.json"
    is_new = not path.exists()
    if is_new:
        _create(cache_dir, listing, requested | {"provenance": provenance}, canary)
    if tidy:
        remove_partial(cache_dir)
    if is_new:
        return lay_out(listing.items, cut(len(listing.items), shard_rows)), []
    stored = read_json(path)
    _check_version(cache_dir, stored)
    _check_same(cache_dir, stored, requested)
    _check_canary(cache_dir, stored["canary"], canary)
    layout, notes = adopt_listing(cache_dir, stored, listing, update)
    return layout, [*_environment_warnings(stored["provenance"], provenance), *notes]


def check_backbone(cache_dir: Path, backbone: BackboneGroup) -> None:
    """Raise CacheError unless a backbone on another machine gives the columns and canary vectors of a cache."""
    stored = read_json(cache_dir / "cache.json")
    requested = {"columns": describe_columns(backbone.recipes, backbone.dims, backbone.tokens)}
    _check_same(cache_dir, stored, requested)
    _check_canary(cache_dir, stored["canary"], embed_canary(backbone))


def _create(cache_dir: Path, listing: Listing, requested: Mapping[str, Any], canary: Mapping[str, np.ndarray]) -> None:
    # Nine digits represent a float32 exactly.
    vectors = {name: [float(f"{number:.9g}") for number in vector] for name, vector in canary.items()}
    about = {
        "format_version": FORMAT_VERSION,
        "source": listing.description,
        "class_names": list(listing.class_names),
        "canary": {"pixels_sha256": canary_sha256(), "vectors": vectors},
    }
    write_json(cache_dir / "cache.json", dict(requested) | about)
    write_items(cache_dir, listing.items)


def check_cache_folder(cache_dir: Path, listing: Listing) -> None:
    """Refuse a folder that is neither empty nor a cache, or that overlaps with the folder of the images.

    Locks and partial files left by a killed extraction are ignored.

    Raises:
        CacheError: the folder is refused, its cache.json is unreadable, or a folder in it is a link.
    """
    root = _source_folder(listing)
    if root is not None:
        cache, images = cache_dir.resolve(), root.resolve()
        if cache.is_relative_to(images) or images.is_relative_to(cache):
            raise CacheError(
                f"the cache and the images must be in separate folders, but {cache_dir} and {root} are the same, or "
                "one is inside the other. Choose a different folder."
            )
    if not cache_dir.exists() and not cache_dir.is_symlink():
        return
    if not cache_dir.is_dir():
        raise CacheError(f"a cache must be a folder, but {cache_dir} is not a folder. Choose another name.")
    check_links(cache_dir)
    # Files in `parts` are checked when the lock is acquired.
    known = {LOCK, HOLDER, "shards", "splits", PARTS}
    names = [name for top in ("", "shards", "splits") for name, _ in entries(cache_dir, top, deep=False)]
    foreign = [name for name in names if name not in known and not PARTIAL.fullmatch(name)]
    if (cache_dir / "cache.json").exists():
        read_cache(cache_dir / "cache.json")
    elif foreign:
        raise CacheError(
            f"a folder for a cache must be empty or hold a cache.json, but {cache_dir} holds {', '.join(foreign[:3])}"
            f"{' …' if len(foreign) > 3 else ''} and no cache.json. Choose an empty folder; if this was a cache, "
            "restore its cache.json."
        )


def _source_folder(listing: Listing) -> Path | None:
    """Return the listed folder, or None; it is taken from an item's path, because the stored name is escaped."""
    path = listing.items[0].path
    if listing.description.get("kind") != "folder" or path is None:
        return None
    root = listing.description["root"]
    return next((folder for folder in path.parents if escape_name(os.fspath(folder)) == root), None)


def _check_version(cache_dir: Path, stored: Mapping[str, Any]) -> None:
    version = stored.get("format_version")
    if version not in READABLE_VERSIONS:
        raise CacheError(
            f"a cache must have one of the formats {READABLE_VERSIONS} of this version of Frostbench, but {cache_dir} "
            f"has format {version}. Use the version that created it, or another folder."
        )


def _check_same(cache_dir: Path, stored: Mapping[str, Any], requested: Mapping[str, Any]) -> None:
    changes = []
    for name, value in requested.items():
        if name == "columns" and not same_columns(stored.get(name, {}), requested[name]):
            changes += _column_differences(stored.get(name, {}), requested[name])
        elif name != "columns" and stored.get(name) != value:
            changes.append(f"{name} was {stored.get(name)!r:.200} and is {value!r:.200}")
    if changes:
        raise CacheError(
            f"a cache must be continued with its original settings, but in {cache_dir} {'; '.join(changes)}. Restore "
            "these settings, or use another folder."
        )


def _column_differences(stored: Mapping[str, Any], requested: Mapping[str, Any]) -> list[str]:
    changes = []
    for name in sorted(stored.keys() | requested.keys()):
        if name not in stored or name not in requested:
            changes.append(f"column {name} is {'new' if name in requested else 'missing'}")
        elif stored[name] != requested[name]:
            old, new = (Recipe.model_validate(columns[name]["recipe"]) for columns in (stored, requested))
            pairs = differences(old, new) or {"dim": (stored[name]["dim"], requested[name]["dim"])}
            changes += [f"{field} of column {name} was {a!r} and is {b!r}" for field, (a, b) in pairs.items()]
    return changes


def _check_canary(cache_dir: Path, stored: Mapping[str, Any], now: Mapping[str, np.ndarray]) -> None:
    if stored["pixels_sha256"] != canary_sha256():
        raise CacheError(
            f"the canary must be the image with which the cache was created, but {cache_dir} states the SHA-256 "
            f"{stored['pixels_sha256'][:12]} for it, not {canary_sha256()[:12]}. Resume with the version that created "
            "the cache."
        )
    for name, vector in stored["vectors"].items():
        distance = apart(now[name], np.asarray(vector))
        if not distance <= APART:
            raise CacheError(
                "a resumed extraction must reproduce the canary's stored vectors, but in column "
                f"{name} the relative distance is {distance:.6f}, more than {APART}. Use the library versions and "
                f"device in the provenance of {cache_dir / 'cache.json'}, or another folder."
            )


def _environment_warnings(stored: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    changed = [
        f"{name} was {stored.get(name)} and is {now.get(name)}"
        for name in sorted(stored.keys() | now.keys())
        if stored.get(name) != now.get(name)
    ]
    if not changed:
        return []
    return [
        f"The cache was created in another environment ({'; '.join(changed)}). The canary still matches; the last bits "
        "of new vectors may differ."
    ]
