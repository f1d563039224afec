"""Opening a cache for extraction: a new one is described first, an old one must be what is asked for now."""

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
    """The canary's vector [D], float32, for each column; of tokens their mean, where there are no others."""
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
    """Describe a new cache in cache.json and items.parquet, or check that an old one is the same, or make it so.

    With `tidy`, half-written files are deleted: those of killed processes, where no other is writing.

    Returns:
        The items by shard, and warnings about an environment that is not the one the cache was begun in and about
        what an update changed.

    Raises:
        CacheError: the cache was begun with another recipe, shard size or pixel limit, or with another listing and no
            update was asked for, or the canary shows that today's environment gives other vectors.
    """
    finish_update(cache_dir)
    canary = embed_canary(backbone)
    asked = {
        "columns": describe_columns(backbone.recipes, backbone.dims, backbone.tokens),
        "shard_rows": shard_rows,
        "pixel_limit": pixel_limit,
    }
    provenance = dict(backbone.provenance) | {"batch": str(batch)}
    path = cache_dir / "cache.json"
    new = not path.exists()
    if new:
        _begin(cache_dir, listing, asked | {"provenance": provenance}, canary)
    if tidy:
        remove_partial(cache_dir)
    if new:
        return lay_out(listing.items, cut(len(listing.items), shard_rows)), []
    stored = read_json(path)
    _check_version(cache_dir, stored)
    _check_same(cache_dir, stored, asked)
    _check_canary(cache_dir, stored["canary"], canary)
    layout, told = adopt_listing(cache_dir, stored, listing, update)
    return layout, [*_environment_warnings(stored["provenance"], provenance), *told]


def check_backbone(cache_dir: Path, backbone: BackboneGroup) -> None:
    """Check on another machine that a backbone gives the columns and the vectors that a cache was begun with.

    Raises:
        CacheError: it does not.
    """
    stored = read_json(cache_dir / "cache.json")
    asked = {"columns": describe_columns(backbone.recipes, backbone.dims, backbone.tokens)}
    _check_same(cache_dir, stored, asked)
    _check_canary(cache_dir, stored["canary"], embed_canary(backbone))


def _begin(cache_dir: Path, listing: Listing, asked: Mapping[str, Any], canary: Mapping[str, np.ndarray]) -> None:
    # Nine digits hold a float32 exactly.
    vectors = {name: [float(f"{number:.9g}") for number in vector] for name, vector in canary.items()}
    about = {
        "format_version": FORMAT_VERSION,
        "source": listing.description,
        "class_names": list(listing.class_names),
        "canary": {"pixels_sha256": canary_sha256(), "vectors": vectors},
    }
    write_json(cache_dir / "cache.json", dict(asked) | about)
    write_items(cache_dir, listing.items)


def check_place(cache_dir: Path, listing: Listing) -> None:
    """Refuse a folder that is neither empty nor a cache, or that overlaps with the folder of the images.

    What a killed extraction leaves before it has written cache.json counts as nothing: locks and half-written files.

    Raises:
        CacheError: it is such a folder, or one in which an extraction might delete files of others.
    """
    root = _source_folder(listing)
    if root is not None:
        cache, images = cache_dir.resolve(), root.resolve()
        if cache.is_relative_to(images) or images.is_relative_to(cache):
            raise CacheError(
                f"a cache and the images must lie in folders apart, however: {cache_dir} and {root} are the same, or "
                "one is inside the other. Choose a folder elsewhere."
            )
    if not cache_dir.exists() and not cache_dir.is_symlink():
        return
    if not cache_dir.is_dir():
        raise CacheError(f"a cache must be a folder, however: {cache_dir} is none. Choose another name.")
    check_links(cache_dir)
    # Taking the lock looks into parts.
    ours = {LOCK, HOLDER, "shards", "splits", PARTS}
    found = [name for top in ("", "shards", "splits") for name, _ in entries(cache_dir, top, deep=False)]
    foreign = [name for name in found if name not in ours and not PARTIAL.fullmatch(name)]
    if (cache_dir / "cache.json").exists():
        read_cache(cache_dir / "cache.json")
    elif foreign:
        named = ", ".join(foreign[:3])
        raise CacheError(
            f"a folder for a cache must be empty or hold a cache.json, however: {cache_dir} holds {named}"
            f"{' …' if len(foreign) > 3 else ''} and none. Choose an empty folder; if this was a cache, restore it."
        )


def _source_folder(listing: Listing) -> Path | None:
    """The folder that was listed, if one was; it is taken from an item's path, for its name is stored escaped."""
    path = listing.items[0].path
    if listing.description.get("kind") != "folder" or path is None:
        return None
    return next((one for one in path.parents if escape_name(os.fspath(one)) == listing.description["root"]), None)


def _check_version(cache_dir: Path, stored: Mapping[str, Any]) -> None:
    found = stored.get("format_version")
    if found not in READABLE_VERSIONS:
        raise CacheError(
            f"a cache is continued by a version that knows its format, however: {cache_dir} has format {found} and "
            f"this program knows {READABLE_VERSIONS}. Use the version that began it, or another folder."
        )


def _check_same(cache_dir: Path, stored: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    told = []
    for name, value in asked.items():
        if name == "columns" and not same_columns(stored.get(name, {}), asked[name]):
            told += _column_differences(stored.get(name, {}), asked[name])
        elif name != "columns" and stored.get(name) != value:
            told.append(f"{name} was {stored.get(name)!r:.200} and is {value!r:.200}")
    if told:
        raise CacheError(
            f"a cache is continued only as it was begun, however: in {cache_dir} {'; '.join(told)}. Use another "
            "folder, or ask for the same."
        )


def _column_differences(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    told = []
    for name in sorted(stored.keys() | wanted.keys()):
        if name not in stored or name not in wanted:
            told.append(f"column {name} is {'new' if name in wanted else 'missing'}")
        elif stored[name] != wanted[name]:
            old, new = (Recipe.model_validate(columns[name]["recipe"]) for columns in (stored, wanted))
            pairs = differences(old, new) or {"dim": (stored[name]["dim"], wanted[name]["dim"])}
            told += [f"{field} of column {name} was {a!r} and is {b!r}" for field, (a, b) in pairs.items()]
    return told


def _check_canary(cache_dir: Path, stored: Mapping[str, Any], now: Mapping[str, np.ndarray]) -> None:
    if stored["pixels_sha256"] != canary_sha256():
        raise CacheError(
            f"the canary must be the picture that the cache was begun with, however: in {cache_dir} it is "
            f"{stored['pixels_sha256'][:12]}, not {canary_sha256()[:12]}. Resume with the version that began it."
        )
    for name, vector in stored["vectors"].items():
        distance = apart(now[name], np.asarray(vector))
        if not distance <= APART:
            raise CacheError(
                f"a resumed cache must give the vectors it was begun with, however: that of the canary in column "
                f"{name} is {distance:.6f} of its length away, more than {APART}. Use the library versions and device "
                f"in the provenance of {cache_dir / 'cache.json'}, or another folder."
            )


def _environment_warnings(stored: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    changed = [
        f"{name} was {stored.get(name)} and is {now.get(name)}"
        for name in sorted(stored.keys() | now.keys())
        if stored.get(name) != now.get(name)
    ]
    if not changed:
        return []
    told = "; ".join(changed)
    return [f"The cache was begun in another environment ({told}). The canary still agrees; low bits may differ."]
