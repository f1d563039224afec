"""FeatureTable: the vectors of a finished cache, in memory or on disk, with the metadata of each row."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from frostbench.embedcache.counting import things
from frostbench.embedcache.hashes import hash_rows, hash_table
from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.storage.damage import reading, remedy
from frostbench.embedcache.storage.digests import check_digests, digests_of
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.storage.listing import check_unique, effective_groups, read_item_columns, rows_of
from frostbench.embedcache.storage.state import read_recipe, read_shard, same_columns
from frostbench.embedcache.storage.state import read_state as read_state
from frostbench.embedcache.storage.store import shard_path
from frostbench.embedcache.storage.stored import StoredColumn, stored_column
from frostbench.embedcache.storage.vectors import read_vectors


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """The N embedded rows of a cache, in listing order; every array is read-only.

    Attributes:
        ids: unique ids of the rows, str [N].
        columns: vectors by column name in their stored type, float16 or float32 [N, D], or [N, T, D] for tokens; empty
            if they stay on disk.
        labels: index into `class_names`, int64 [N]; -1 for rows without a label, which most callers do not read.
        class_names: all classes of the listing, including those without a row here.
        groups: group of each row, str [N]; a group must not be split between training and evaluation.
        has_groups: whether any item states a group; if not, only byte-identical copies share one.
        content: SHA-256 of the file (or vector) of each row, hex, str [N].
        split: role that the listing assigns to each row ("" if no role), str [N]; None if it assigns no roles.
        recipes: recipe of each column.
        stored: columns by name that stay on disk; empty if they are in memory.
        times: capture time of each image as sortable ISO 8601 text ("" if unknown), str [N]; None if no item has one.
        folder: cache folder; None for rows that are not in a cache.
        tokens: recipe of each column of patch tokens in the cache, whether it was read or not.
        also: vectors of further views of the rows' images by COLUMN@VIEW, float16 [N, D], NaN if a row has no view.
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
    stored: dict[str, StoredColumn] = field(default_factory=dict)
    times: np.ndarray | None = None
    folder: Path | None = None
    also: dict[str, np.ndarray] = field(default_factory=dict)
    tokens: dict[str, Recipe] = field(default_factory=dict)

    @property
    def label_names(self) -> np.ndarray:
        """Name of the label of each row, object [N]; "" for rows without a label."""
        return np.asarray(np.array([*self.class_names, ""], dtype=object)[self.labels])

    @cached_property
    def rows_hash(self) -> str:
        """SHA-256 of ids, contents, labels by name ("" without one), groups and class names."""
        names = self.label_names.tolist()
        return hash_rows(self.ids.tolist(), self.content.tolist(), names, self.groups.tolist(), self.class_names)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of the rows and of the recipe of each vector column, in any order.

        Columns of patch tokens count only if no other columns were read, and then all of them count, so that the hash
        does not depend on which of them were read.
        """
        plain = {name: recipe.hash for name, recipe in self.recipes.items() if name not in self.tokens}
        return hash_table(plain or {name: recipe.hash for name, recipe in self.tokens.items()}, self.rows_hash)


def read_table(
    cache_dir: Path,
    columns: Sequence[str] | None = None,
    verify: bool = False,
    stored: bool = False,
    unlabelled: bool = False,
) -> FeatureTable:
    """Read a finished cache and check everything that is read against the digests in its manifest.

    Opening checks cache.json, the listing, the recipes stated in every shard, and the content hash of ids, image bytes,
    labels, groups, classes and recipes. The SHA-256 of each shard is checked here if vectors are read into memory, and
    otherwise before its first row is read (`StoredColumn.check` checks all shards at once).

    Args:
        cache_dir: cache folder.
        columns: vector columns to read; None reads all except columns of tokens, which are large.
        verify: whether to also check page checksums and that vectors are finite, in case they were written damaged.
        stored: whether to leave the vectors on disk, as `FeatureTable.stored`.
        unlabelled: whether to include images without a label; without them, a table and all that depends on its hash
            stay the same when such images are added to the cache.

    Raises:
        CacheError: the cache is unfinished, of another format, damaged or inconsistent, or lacks a column.
    """
    cache, manifest = read_state(cache_dir)
    names = _choose_columns(cache, columns)
    recipes = {name: read_recipe(cache_dir, name, column) for name, column in cache["columns"].items()}
    ids, content = _read_keys(cache_dir, cache, manifest)
    with reading(cache_dir / "items.parquet"):
        listing = read_item_columns(cache_dir)
    rows = rows_of(listing["id"], ids)
    labels, groups, split, times = ([listing[n][row] for row in rows] for n in ("label", "group", "split", "time"))
    table = FeatureTable(
        ids=np.array(ids, dtype=str),
        columns={},
        labels=_as_index(labels, cache["class_names"]),
        class_names=tuple(cache["class_names"]),
        groups=np.array(effective_groups(groups, content), dtype=str),
        has_groups=any(listing["group"]),
        content=np.array(content, dtype=str),
        split=np.array([role or "" for role in split], dtype=str) if any(listing["split"]) else None,
        times=np.array([time or "" for time in times], dtype=str) if any(listing["time"]) else None,
        recipes={name: recipes[name] for name in names},
        folder=cache_dir,
        tokens={name: recipe for name, recipe in recipes.items() if shape_of(cache["columns"][name])[0] is not None},
    )
    _check_content(cache_dir, manifest, recipes, table)
    table = _with_vectors(table, cache_dir, cache, manifest, verify, stored)
    return table if unlabelled or (table.labels >= 0).all() else rows_where(table, table.labels >= 0)


def rows_where(table: FeatureTable, kept: np.ndarray) -> FeatureTable:
    """Return the rows of a table where a mask, bool [N], is true."""
    found = replace(
        table,
        ids=table.ids[kept],
        labels=table.labels[kept],
        groups=table.groups[kept],
        content=table.content[kept],
        columns={name: x[kept] for name, x in table.columns.items()},
        stored={name: column.only(kept) for name, column in table.stored.items()},
        also={name: x[kept] for name, x in table.also.items()},
        split=None if table.split is None else table.split[kept],
        times=None if table.times is None else table.times[kept],
    )
    for array in (found.ids, found.labels, found.groups, found.content, *found.columns.values()):
        array.flags.writeable = False
    return found


def _with_vectors(
    table: FeatureTable, cache_dir: Path, cache: dict[str, Any], manifest: dict[str, Any], verify: bool, stored: bool
) -> FeatureTable:
    """Return the table with its columns, in memory or on disk."""
    paths, digests = [shard_path(cache_dir, i) for i in range(len(manifest["shards"]))], digests_of(manifest)
    shapes = {name: shape_of(cache["columns"][name]) for name in table.recipes}
    kinds: dict[str, str] = {name: recipe.storage for name, recipe in table.recipes.items()}
    if stored:
        on_disk = {n: stored_column(paths, n, dim, tokens, kinds[n], digests) for n, (tokens, dim) in shapes.items()}
        for column in on_disk.values() if verify else ():
            column.verify()
        return _same_rows(table, stored=on_disk)
    check_digests(paths, digests)
    columns = {n: _read_column(paths, n, *shape, verify, kinds[n]) for n, shape in shapes.items()}
    return _same_rows(table, columns=columns)


def _same_rows(table: FeatureTable, **changes: Any) -> FeatureTable:
    """Return the table with other vectors, reusing the hash of its rows."""
    changed = replace(table, **changes)
    changed.__dict__["rows_hash"] = table.rows_hash
    return changed


def _check_content(cache_dir: Path, manifest: dict[str, Any], recipes: dict[str, Recipe], table: FeatureTable) -> None:
    """Raise CacheError unless rows, labels and recipes have the content hash of the manifest."""
    content_hash = hash_table({name: recipe.hash for name, recipe in recipes.items()}, table.rows_hash)
    if content_hash != manifest["content_hash"]:
        raise CacheError(
            f"rows, labels and recipes of a cache must have the content hash {manifest['content_hash'][:12]}… of its "
            f"manifest, but those of {cache_dir} have {content_hash[:12]}…. Files were edited, are damaged, or come "
            f"from another cache. Find them with `frostbench cache doctor {cache_dir}` and restore the original files."
        )


def shape_of(column: dict[str, Any]) -> tuple[int | None, int]:
    """Return T (None for plain vectors) and D of a column of cache.json."""
    return column.get("tokens"), column["dim"]


def _read_column(
    paths: Sequence[Path], name: str, tokens: int | None, dim: int, verify: bool, storage: str
) -> np.ndarray:
    """Read a column into memory in its stored type, [N, D] or [N, T, D], read-only."""
    x = read_vectors(paths, name, dim * (tokens or 1), verify, storage)
    return x if tokens is None else x.reshape(len(x), tokens, dim)


def _choose_columns(cache: dict[str, Any], columns: Sequence[str] | None) -> list[str]:
    available = sorted(cache["columns"])
    if columns is None:
        return [name for name in available if shape_of(cache["columns"][name])[0] is None] or available
    if not columns or not set(columns) <= set(available):
        raise CacheError(f"columns must be among those of the cache, {available}, got {list(columns)}. Change columns.")
    return list(columns)


def _read_keys(cache_dir: Path, cache: dict[str, Any], manifest: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Read the ids and digests of all rows, and check that every shard has the recipes of cache.json."""
    ids: list[str] = []
    content: list[str] = []
    for i, shard in enumerate(manifest["shards"]):
        path = shard_path(cache_dir, i)
        if not path.is_file():
            raise CacheError(f"the manifest lists {shard['name']}, but its file {path} is missing. {remedy(path)}")
        shard_ids, shard_content, columns = read_shard(cache_dir, i)
        if not same_columns(columns, cache["columns"]):
            raise CacheError(
                f"{shard['name']} must have the recipes of cache.json, but {path} states different ones, so one of the "
                f"two files comes from another cache. {remedy(path)}"
            )
        if len(shard_ids) != shard["rows"]:
            raise CacheError(
                f"{shard['name']} must hold {things(shard['rows'], 'row', 'rows')} as stated in the manifest, but "
                f"{path} holds {len(shard_ids)}. {remedy(path)}"
            )
        ids += shard_ids
        content += shard_content
    check_unique(ids, "rows", f"Shards were swapped or damaged. Find them with `frostbench cache doctor {cache_dir}`.")
    return ids, content


def _as_index(labels: Sequence[str], class_names: Sequence[str]) -> np.ndarray:
    position = {name: i for i, name in enumerate(class_names)} | {"": -1}
    unknown = sorted(set(labels) - set(position))
    if unknown:
        raise CacheError(
            f"every label must be one of the {len(class_names)} classes of cache.json, but {unknown[:5]} are not. "
            "Restore the cache.json that belongs to the listing."
        )
    return np.array([position[label] for label in labels], dtype=np.int64)
