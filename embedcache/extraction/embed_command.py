"""Reconstruction of the embed command from a cache."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from frostbench.embedcache.decode import PIXEL_LIMIT
from frostbench.embedcache.recipe import UNKNOWN, Recipe

_OPTIONS = {"group_regex": "--group-regex", "time_regex": "--time-regex"}
_OPTIONS |= {"image_column": "--image-column", "label_column": "--label-column"}
SHARD_ROWS = 4096


def run_again(cache_dir: Path, cache: Mapping[str, Any], update: bool = False) -> str:
    """Return the advice to run the embed command of a cache, a clause that starts with "run" and ends with the command.

    A recipe states what a preparation file or a weights file led to, but neither whether there was one nor its path, so
    the clause reminds of both where they are possible.
    """
    providers = {column["recipe"]["provider"] for column in cache["columns"].values()}
    files = [] if providers <= {"external"} else ["--preparation"]
    files += ["--weights"] if providers - {"external", "bundled"} else []
    reminder = f" (with {' and '.join(files)} if the cache was made with {'them' if files[1:] else 'it'})"
    return f"run{reminder if files else ''}: {embed_command(cache_dir, cache, update)}"


def embed_command(cache_dir: Path, cache: Mapping[str, Any], update: bool = False) -> str:
    """Return the embed command that continues a cache, for the user to copy.

    It states every option that the source, the recipes or the settings of the cache determine: all but --preparation
    and --weights, whose files are unknown, and options that only change how or where the command runs.

    Args:
        cache_dir: cache folder.
        cache: content of its cache.json.
        update: whether to add --update.
    """
    source = cache.get("source") or {}
    recipes = {name: Recipe.model_validate(column["recipe"]) for name, column in cache["columns"].items()}
    words = ["frostbench", "embed", _source_path(source), "--cache", str(cache_dir), *_backbones(recipes)]
    words += _shared_options(recipes)
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


def _backbones(recipes: Mapping[str, Recipe]) -> list[str]:
    """Return the options for backbones, poolings and sizes; columns of several backbones are named PREFIX.POOLING.

    Each pooling and each size that is given applies to every backbone, and with several sizes the prefix ends in @SIZE.
    Poolings and sizes that do not fit this are the backbones' own, which the command leaves out.
    """
    pools, sizes, named_sizes = dict[str, set[str]](), set[int](), True
    for name, recipe in recipes.items():
        prefix, dot, pool = name.partition(".")
        has_prefix = bool(dot) and prefix.replace("-", "").replace("_", "").replace("@", "").isalnum()
        is_labelled = has_prefix and len(recipes) > 1
        label = f"{prefix.partition('@')[0]}=" if is_labelled else ""
        pools.setdefault(f"{label}{recipe.provider}:{recipe.model}", set()).add(pool if is_labelled else name)
        sizes |= set() if recipe.size is None else {recipe.size}
        named_sizes &= is_labelled and "@" in prefix
    words = [("--backbone", value) for value in pools]
    if len({frozenset(names) for names in pools.values()}) == 1:
        words += [("--pool", value) for value in sorted(next(iter(pools.values())))]
    if len(sizes) == 1 or named_sizes:
        words += [("--size", str(value)) for value in sorted(sizes)]
    return [word for pair in words for word in pair]


def _shared_options(recipes: Mapping[str, Recipe]) -> list[str]:
    """Return the options for the number type and the intensity range.

    Number types that differ were chosen by --autocast auto, the default.
    """
    words, number_types = list[str](), {recipe.autocast for recipe in recipes.values()} - {UNKNOWN}
    if len(number_types) == 1:
        words += ["--autocast", *number_types]
    grey = next(iter(recipes.values())).intensity_range
    if grey is not None:
        words += ["--intensity-range", ":".join(repr(end).removesuffix(".0") for end in grey)]
    return words
