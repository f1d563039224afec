"""Reading the JSON and the keys of a cache, checked, so that what reads them can rely on what they hold."""

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.storage import store
from frostbench.embedcache.storage.damage import is_imported, reading, remedy
from frostbench.embedcache.storage.digests import sha256_now
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.storage.layout import shard_sizes
from frostbench.embedcache.storage.listing import read_item_columns
from frostbench.embedcache.storage.sealing import check_unchanged


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class _Column(_Strict):
    recipe: dict[str, Any]
    recipe_hash: str
    dim: int = Field(ge=1)
    tokens: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _fits_a_cell(self) -> "_Column":
        # Parquet counts the bytes of a fixed-size value in 32 bits.
        if 2 * self.dim * (self.tokens or 1) >= 2**31:
            raise ValueError("a row of a column takes less than 2 GiB")
        return self


class _Canary(_Strict):
    vectors: dict[str, list[float]] = Field(min_length=1)


class _Cache(_Strict):
    format_version: int
    source: dict[str, Any] | None = None
    class_names: list[str]
    columns: dict[str, _Column] = Field(min_length=1)
    shard_rows: int = Field(ge=1)
    shard_sizes: list[Annotated[int, Field(ge=0)]] | None = None
    canary: _Canary | None = None


class _Shard(_Strict):
    name: str
    rows: int = Field(ge=0)
    bad: int = Field(ge=0)
    sha256: str


class _Manifest(_Strict):
    n_listed: int = Field(ge=0)
    n_ok: int = Field(ge=0)
    n_bad: int = Field(ge=0)
    shards: list[_Shard]
    items_sha256: str
    content_hash: str
    cache_sha256: str | None = None
    views_sha256: str | None = None


class _Failed(_Strict):
    id: str
    path: str | None
    reason: str


_QUARANTINE = TypeAdapter(list[_Failed])


def read_state(cache_dir: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """cache.json and manifest.json of a finished cache of this format, with every key that a reader needs.

    Raises:
        CacheError: there is no cache, it is unfinished, of another format, damaged, or cache.json, its listing or its
            `views.parquet` was changed since.
    """
    cache = read_cache(cache_dir / "cache.json")
    path = cache_dir / "manifest.json"
    if not path.is_file():
        resumes = "Was it stopped on the way? Run the same embed command again: it resumes where it stopped."
        raise CacheError(
            f"a finished cache holds manifest.json, however: {cache_dir} does not. "
            f"{remedy(path) if is_imported(cache_dir) else resumes}"
        )
    manifest = read_manifest(path)
    n, sizes = manifest["n_listed"], cache.get("shard_sizes")
    # Counted, for a damaged number would make a list that fills the memory.
    wanted = -(-n // cache["shard_rows"]) if sizes is None else len(shard_sizes(cache, n, cache_dir))
    if len(manifest["shards"]) != wanted:
        raise CacheError(
            f"a manifest of {manifest['n_listed']} items must name {wanted} shards, however: {path} names "
            f"{len(manifest['shards'])}. {remedy(path)}"
        )
    _check_listing(cache_dir, manifest["items_sha256"])
    check_unchanged(cache_dir, manifest)
    return cache, manifest


def read_manifest(path: Path) -> dict[str, Any]:
    """A manifest.json with every key that a reader needs.

    Raises:
        CacheError: it is gone or damaged.
    """
    manifest: dict[str, Any]
    with reading(path):
        manifest = json.loads(path.read_text(encoding="utf-8"))
        _Manifest.model_validate(manifest)
        names = [shard["name"] for shard in manifest["shards"]]
        if odd := [name for i, name in enumerate(names) if name != store.shard_name(i)]:
            raise ValueError(f"a shard is called {odd[0]!r:.100}, which is not the name of one")
    return manifest


def read_cache(path: Path) -> dict[str, Any]:
    """A cache.json of a known format, with every key that a reader needs.

    Raises:
        CacheError: it is gone, damaged or of another format.
    """
    if not path.parent.exists():
        raise CacheError(f"a cache is a folder, however: {path.parent} does not exist. Is the path right?")
    if not path.is_file():
        raise CacheError(f"a cache holds cache.json, however: {path.parent} does not. Is this the cache's own folder?")
    cache: dict[str, Any]
    with reading(path):
        cache = json.loads(path.read_text(encoding="utf-8"))
        found = cache.get("format_version", store.FORMAT_VERSION) if isinstance(cache, dict) else store.FORMAT_VERSION
        if found not in store.READABLE_VERSIONS:
            raise CacheError(
                f"this program reads the cache formats {store.READABLE_VERSIONS}, however: {path.parent} has format "
                f"{found}. Read it with the version that wrote it, or make it anew."
            )
        _Cache.model_validate(cache)
    return cache


def _check_listing(cache_dir: Path, stated: str) -> None:
    """Tell a listing that is gone or unreadable from one that can be read but is another one."""
    path = cache_dir / "items.parquet"
    with reading(path):
        if sha256_now(path) == stated:
            return
        read_item_columns(cache_dir)
    again = "import" if is_imported(cache_dir) else "embed"
    raise CacheError(
        f"items.parquet must be the listing that was embedded, however: that of {cache_dir} was changed since. "
        f"Put the old file back, or {again} the changed listing into a new folder."
    )


def read_shard_keys(cache_dir: Path, i: int) -> tuple[list[str], list[str]]:
    """As `store.read_keys`.

    Raises:
        CacheError: the shard is missing or damaged.
    """
    path = store.shard_path(cache_dir, i)
    with reading(path):
        return store.read_keys(cache_dir, i)


def read_shard(cache_dir: Path, i: int) -> tuple[list[str], list[str], dict[str, Any]]:
    """The ids and digests of the rows of shard i, and what it says of its columns; the file is opened once.

    Raises:
        CacheError: the shard is missing, damaged, or was written by another program.
    """
    path = store.shard_path(cache_dir, i)
    with reading(path):
        return store.read_head(cache_dir, i)


def read_shard_columns(cache_dir: Path, i: int) -> dict[str, Any]:
    """What shard i says of its columns, {name: {recipe, recipe_hash, dim}}, to be compared with cache.json.

    Raises:
        CacheError: the shard is missing, damaged, or was written by another program.
    """
    path = store.shard_path(cache_dir, i)
    with reading(path):
        columns: dict[str, Any] = store.read_about(cache_dir, i)["columns"]
        return columns


def read_shard_bad(cache_dir: Path, i: int) -> list[dict[str, Any]]:
    """As `store.read_bad`, checked: {id, path, reason} of each row of the shard that did not embed.

    Raises:
        CacheError: the file is missing or damaged.
    """
    path = store.bad_path(cache_dir, i)
    with reading(path):
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        _QUARANTINE.validate_python(rows)
        return rows


def read_quarantine(cache_dir: Path) -> list[dict[str, Any]]:
    """The images of a finished cache that could not be embedded, in listing order: {id, path, reason}.

    Raises:
        CacheError: the cache is unfinished, of another format, or damaged.
    """
    shards = read_state(cache_dir)[1]["shards"]
    rows = []
    for i, shard in enumerate(shards):
        path, found = store.bad_path(cache_dir, i), read_shard_bad(cache_dir, i)
        if len(found) != shard["bad"]:
            raise CacheError(
                f"{path.name} must hold {shard['bad']} images as the manifest says, however: {path} holds "
                f"{len(found)}. {remedy(path)}"
            )
        rows += found
    return rows


def read_recipe(cache_dir: Path, name: str, column: dict[str, Any]) -> Recipe:
    """The recipe of one column of cache.json.

    Raises:
        CacheError: it is no recipe, or does not have the hash stated beside it.
    """
    path = cache_dir / "cache.json"
    with reading(path):
        recipe = Recipe.model_validate(column["recipe"])
    if recipe.hash != column["recipe_hash"]:
        raise CacheError(
            f"the recipe of column {name!r} must have the hash {column['recipe_hash']}, however: it has {recipe.hash}. "
            f"{path} was edited, or a version with other recipe fields wrote it. {remedy(path)}"
        )
    return recipe


def same_columns(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether two descriptions of columns say the same, though one may have been written before a field was added."""
    if first == second:
        return True
    try:
        return _parsed(first) == _parsed(second)
    except (ValueError, LookupError, TypeError, AttributeError):  # what cannot be read is not the same
        return False


def _parsed(columns: dict[str, Any]) -> dict[str, tuple[Recipe, int, int | None]]:
    return {
        name: (Recipe.model_validate(column["recipe"]), column["dim"], column.get("tokens"))
        for name, column in columns.items()
    }
