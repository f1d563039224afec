"""Reconstruction of the embed command from a cache."""

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
    """Return the embed command that continues a cache, for the user to copy.

    It states the source with its options, the backbones with their poolings and sizes, the shard size and the pixel
    limit, but not weights files, preparation, intensity range, device or autocast.

    Args:
        cache_dir: cache folder.
        cache: content of its cache.json.
        update: whether to add --update.
    """
    source = cache.get("source") or {}
    words = ["frostbench", "embed", _source_path(source), "--cache", str(cache_dir), *_backbones(cache["columns"])]
    if source.get("kind") == "manifest" and source.get("root"):
        words += ["--root", str(source["root"])]
    for name, option in _OPTIONS.items():
        words += [option, str(source[name])] if source.get(name) is not None else []
    words += ["--shard-rows", str(cache["shard_rows"])] if cache["shard_rows"] != SHARD_ROWS else []
    limit = cache.get("pixel_limit", PIXEL_LIMIT)
    words += ["--pixel-limit", str(limit)] if limit != PIXEL_LIMIT else []
    return shlex.join([*words, *(["--update"] if update else [])])


def _source_path(source: Mapping[str, Any]) -> str:
    """Return the path of the source, or the placeholder SOURCE if it is unknown or has escaped characters."""
    path = str(source.get("manifest") or source.get("source") or source.get("root") or "")
    return path if path and "\\" not in path else "SOURCE"


def _backbones(columns: Mapping[str, Any]) -> list[str]:
    """Return the options for backbones, poolings and sizes; columns of several backbones are named PREFIX.POOLING."""
    named, pools, sizes = dict[str, None](), dict[str, None](), dict[str, None]()
    for name, column in columns.items():
        recipe = Recipe.model_validate(column["recipe"])
        prefix, dot, pool = name.partition(".")
        has_prefix = bool(dot) and prefix.replace("-", "").replace("_", "").replace("@", "").isalnum()
        label = f"{prefix.partition('@')[0]}=" if has_prefix and len(columns) > 1 else ""
        named[f"{label}{recipe.provider}:{recipe.model}"] = None
        pools[pool if label else name] = None
        if recipe.size is not None:
            sizes[str(recipe.size)] = None
    words = [("--backbone", value) for value in named] + [("--pool", value) for value in pools]
    words += [("--size", value) for value in sizes]
    return [word for pair in words for word in pair]
