"""FeatureTable: the vectors of a finished cache in memory, with everything that belongs to each row."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from embedcache.files import CacheError, read_json
from embedcache.hashes import file_sha256, hash_rows, hash_table
from embedcache.listing import check_unique, effective_groups, read_item_columns, rows_of
from embedcache.recipe import Recipe
from embedcache.store import FORMAT_VERSION, read_keys, shard_path
from embedcache.vectors import read_vectors


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """The N embedded rows of a cache, in listing order; every array is read-only.

    Attributes:
        ids: unique names of the rows, str [N].
        columns: the vectors by column name, float16 [N, D].
        labels: index into `class_names`, int64 [N].
        class_names: all classes of the listing, also those without a row here.
        groups: rows of one group must not be split, str [N].
        has_groups: False where no item states a group, so that only byte-identical copies share one.
        content: SHA-256 of the file (or vector) of each row, hex, str [N].
        split: the role that the listing gives to each row ("" where none), str [N]; None where it gives none at all.
        recipes: what made each column.
    """

    ids: np.ndarray
    columns: dict[str, np.ndarray]
    labels: np.ndarray
    class_names: tuple[str, ...]
    groups: np.ndarray
    has_groups: bool
    content: np.ndarray
    split: np.ndarray | None
    recipes: dict[str, Recipe]

    @cached_property
    def rows_hash(self) -> str:
        """SHA-256 of ids, contents, labels by name, groups and class names: of everything but the recipes."""
        names = [self.class_names[i] for i in self.labels]
        return hash_rows(self.ids.tolist(), self.content.tolist(), names, self.groups.tolist(), self.class_names)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of the rows and of the recipe of each column; the order of columns does not matter."""
        return hash_table({name: recipe.hash for name, recipe in self.recipes.items()}, self.rows_hash)


def read_table(cache_dir: Path, columns: Sequence[str] | None = None, verify: bool = False) -> FeatureTable:
    """Read a finished cache.

    Args:
        cache_dir: the cache.
        columns: the vector columns to read; None reads all.
        verify: check the checksum of every page and that the vectors are finite: about twice the time.

    Raises:
        CacheError: the cache is unfinished, of another format, damaged, inconsistent, or lacks a column.
    """
    cache, manifest = read_state(cache_dir)
    names = _choose_columns(cache, columns)
    ids, content = _read_keys(cache_dir, manifest)
    listing = read_item_columns(cache_dir)
    rows = rows_of(listing["id"], ids)
    labels, groups, split = ([listing[name][row] for row in rows] for name in ("label", "group", "split"))
    recipes = {name: _read_recipe(name, cache["columns"][name]) for name in names}
    paths = [shard_path(cache_dir, i) for i in range(len(manifest["shards"]))]
    vectors = {name: read_vectors(paths, name, cache["columns"][name]["dim"], verify) for name in names}
    return FeatureTable(
        ids=np.array(ids, dtype=str),
        columns=vectors,
        labels=_as_index(labels, cache["class_names"]),
        class_names=tuple(cache["class_names"]),
        groups=np.array(effective_groups(groups, content), dtype=str),
        has_groups=any(listing["group"]),
        content=np.array(content, dtype=str),
        split=np.array([role or "" for role in split], dtype=str) if any(listing["split"]) else None,
        recipes=recipes,
    )


def read_state(cache_dir: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """cache.json and manifest.json of a finished cache of this format.

    Raises:
        CacheError: there is no cache, it is unfinished, of another format, or its listing was changed since.
    """
    if not (cache_dir / "cache.json").is_file():
        raise CacheError(f"a cache holds cache.json, however: {cache_dir} does not. Is this the cache's own folder?")
    cache = read_json(cache_dir / "cache.json")
    if cache.get("format_version") != FORMAT_VERSION:
        raise CacheError(
            f"this program reads cache format {FORMAT_VERSION}, however: {cache_dir} has format "
            f"{cache.get('format_version')}. Read it with the version that wrote it, or embed anew."
        )
    if not (cache_dir / "manifest.json").is_file():
        raise CacheError(
            f"a finished cache holds manifest.json, however: {cache_dir} does not; it was stopped on the way. "
            "Run the same embed command again: it resumes where it stopped."
        )
    manifest = read_json(cache_dir / "manifest.json")
    if file_sha256(cache_dir / "items.parquet") != manifest["items_sha256"]:
        raise CacheError(
            f"items.parquet must be the listing that was embedded, however: that of {cache_dir} was changed since. "
            "Embed the changed listing into a new folder."
        )
    return cache, manifest


def _choose_columns(cache: dict[str, Any], columns: Sequence[str] | None) -> list[str]:
    there = sorted(cache["columns"])
    if columns is None:
        return there
    unknown = [name for name in columns if name not in there]
    if unknown or not columns:
        raise CacheError(
            f"this cache holds the columns {there}, however: {list(columns)} was asked for. Choose of these."
        )
    return list(columns)


def _read_keys(cache_dir: Path, manifest: dict[str, Any]) -> tuple[list[str], list[str]]:
    ids: list[str] = []
    content: list[str] = []
    for i, shard in enumerate(manifest["shards"]):
        if not shard_path(cache_dir, i).is_file():
            raise CacheError(
                f"the manifest lists {shard['name']}, however: its file is gone. Resume the embed command."
            )
        shard_ids, shard_content = read_keys(cache_dir, i)
        if len(shard_ids) != shard["rows"]:
            raise CacheError(
                f"{shard['name']} must hold {shard['rows']} rows as the manifest says, however: it holds "
                f"{len(shard_ids)}. Delete this shard and the manifest, and resume the embed command."
            )
        ids += shard_ids
        content += shard_content
    check_unique(ids, "rows")
    return ids, content


def _read_recipe(name: str, column: dict[str, Any]) -> Recipe:
    recipe = Recipe.model_validate(column["recipe"])
    if recipe.hash != column["recipe_hash"]:
        raise CacheError(
            f"the recipe of column {name!r} must have the hash {column['recipe_hash']}, however: it has {recipe.hash}. "
            "cache.json was edited, or a version with other recipe fields wrote it: embed anew."
        )
    return recipe


def _as_index(labels: Sequence[str], class_names: Sequence[str]) -> np.ndarray:
    position = {name: i for i, name in enumerate(class_names)}
    unknown = sorted(set(labels) - set(position))
    if unknown:
        raise CacheError(
            f"every label must be one of the {len(class_names)} classes of cache.json, however: {unknown[:5]} are not. "
            "Was cache.json changed after the listing?"
        )
    return np.array([position[label] for label in labels], dtype=np.int64)
