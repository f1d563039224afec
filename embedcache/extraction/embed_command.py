"""The command line that continues a cache, as far as the cache can tell it."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from frostbench.embedcache.decode import PIXEL_LIMIT
from frostbench.embedcache.recipe import Recipe

_OPTIONS = {"group_regex": "--group-regex", "time_regex": "--time-regex"}
_OPTIONS |= {"image_column": "--image-column", "label_column": "--label-column"}
SHARD_ROWS = 4096


def embed_command(cache_dir: Path, cache: Mapping[str, Any], update: bool = False) -> str:
    """The embed command for a cache, to be copied.

    It names the source, the backbones with their poolings and sizes, and what else is in cache.json. A file of weights,
    the device and the autocast are not in it.

    Args:
        cache_dir: the cache.
        cache: its cache.json.
        update: whether the listing is to be brought up to date.
    """
    source = cache.get("source") or {}
    words = ["frostbench", "embed", _place(source), "--cache", str(cache_dir), *_backbones(cache["columns"])]
    if source.get("kind") == "manifest" and source.get("root"):
        words += ["--root", str(source["root"])]
    for name, option in _OPTIONS.items():
        words += [option, str(source[name])] if source.get(name) is not None else []
    words += ["--shard-rows", str(cache["shard_rows"])] if cache["shard_rows"] != SHARD_ROWS else []
    limit = cache.get("pixel_limit", PIXEL_LIMIT)
    words += ["--pixel-limit", str(limit)] if limit != PIXEL_LIMIT else []
    return shlex.join([*words, *(["--update"] if update else [])])


def _place(source: Mapping[str, Any]) -> str:
    """Where the images are; SOURCE where that is not known, or cannot be written as it was."""
    place = str(source.get("manifest") or source.get("source") or source.get("root") or "")
    return place if place and "\\" not in place else "SOURCE"


def _backbones(columns: Mapping[str, Any]) -> list[str]:
    """The options for backbones, poolings and sizes; columns of several backbones are called PREFIX.POOLING."""
    named, pools, sizes = dict[str, None](), dict[str, None](), dict[str, None]()
    for name, column in columns.items():
        recipe = Recipe.model_validate(column["recipe"])
        prefix, dot, pool = name.partition(".")
        together = bool(dot) and prefix.replace("-", "").replace("_", "").replace("@", "").isalnum()
        own = f"{prefix.partition('@')[0]}=" if together and len(columns) > 1 else ""
        named[f"{own}{recipe.provider}:{recipe.model}"] = None
        pools[pool if own else name] = None
        if recipe.size is not None:
            sizes[str(recipe.size)] = None
    words = [("--backbone", value) for value in named] + [("--pool", value) for value in pools]
    words += [("--size", value) for value in sizes]
    return [word for pair in words for word in pair]
