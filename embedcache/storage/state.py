"""Reading and validating the JSON files and row keys of a cache."""

import json
from pathlib import Path
from typing import Any

from frostbench.embedcache.counting import things
from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.storage import store
from frostbench.embedcache.storage.damage import is_imported, reading, remedy
from frostbench.embedcache.storage.digests import sha256_now
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.storage.layout import shard_sizes
from frostbench.embedcache.storage.listing import read_item_columns
from frostbench.embedcache.storage.schemas import QUARANTINE, CacheFile, ManifestFile
from frostbench.embedcache.storage.sealing import check_unchanged


def read_state(cache_dir: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read and validate cache.json and manifest.json of a complete cache.

    Raises:
        CacheError: there is no cache; it is incomplete, damaged or of another format; or cache.json, the listing or
            `views.parquet` was changed.
    """
    cache = read_cache(cache_dir / "cache.json")
    path = cache_dir / "manifest.json"
    if not path.is_file():
        resumes = "If extraction was interrupted, run the same embed command again; it resumes where it stopped."
        raise CacheError(
            f"A complete cache contains manifest.json, but {cache_dir} does not. "
            f"{remedy(path) if is_imported(cache_dir) else resumes}"
        )
    manifest = read_manifest(path)
    n, sizes = manifest["n_listed"], cache.get("shard_sizes")
    # Compare counts, because expanding a damaged number into a list could exhaust memory.
    wanted = -(-n // cache["shard_rows"]) if sizes is None else len(shard_sizes(cache, n, cache_dir))
    if len(manifest["shards"]) != wanted:
        items, shards = things(n, "item", "items"), things(wanted, "shard", "shards")
        raise CacheError(
            f"A manifest of {items} must name {shards}, but {path} names {len(manifest['shards'])}. {remedy(path)}"
        )
    _check_listing(cache_dir, manifest["items_sha256"])
    check_unchanged(cache_dir, manifest)
    return cache, manifest


def read_manifest(path: Path) -> dict[str, Any]:
    """Read and validate a manifest.json.

    Raises:
        CacheError: it is missing or damaged.
    """
    manifest: dict[str, Any]
    with reading(path):
        manifest = json.loads(path.read_text(encoding="utf-8"))
        ManifestFile.model_validate(manifest)
        names = [shard["name"] for shard in manifest["shards"]]
        if odd := [name for i, name in enumerate(names) if name != store.shard_name(i)]:
            raise ValueError(f"{odd[0]!r:.100} is not the name of a shard")
    return manifest


def read_cache(path: Path) -> dict[str, Any]:
    """Read and validate a cache.json.

    Raises:
        CacheError: it is missing, damaged or of another format.
    """
    if not path.parent.exists():
        raise CacheError(f"A cache must be an existing folder, but {path.parent} does not exist. Check the path.")
    if not path.is_file():
        raise CacheError(
            f"A cache contains cache.json, but {path.parent} does not. Check that this is the folder of the cache."
        )
    cache: dict[str, Any]
    with reading(path):
        cache = json.loads(path.read_text(encoding="utf-8"))
        found = cache.get("format_version", store.FORMAT_VERSION) if isinstance(cache, dict) else store.FORMAT_VERSION
        if found not in store.READABLE_VERSIONS:
            raise CacheError(
                f"This version reads the cache formats {store.READABLE_VERSIONS}, but {path.parent} has format "
                f"{found}. Read it with the version that wrote it, or make the cache again."
            )
        CacheFile.model_validate(cache)
    return cache


def _check_listing(cache_dir: Path, stated: str) -> None:
    """Check the listing's digest; raise different errors for an unreadable and for a changed listing."""
    path = cache_dir / "items.parquet"
    with reading(path):
        if sha256_now(path) == stated:
            return
        read_item_columns(cache_dir)
    again = "import" if is_imported(cache_dir) else "embed"
    raise CacheError(
        f"items.parquet must be the listing that was embedded, but that of {cache_dir} was changed. "
        f"Restore the old file, or {again} the changed listing into a new folder."
    )


def read_shard_keys(cache_dir: Path, i: int) -> tuple[list[str], list[str]]:
    """Run `store.read_keys`, and turn its errors into CacheError.

    Raises:
        CacheError: the shard is missing or damaged.
    """
    path = store.shard_path(cache_dir, i)
    with reading(path):
        return store.read_keys(cache_dir, i)


def read_shard(cache_dir: Path, i: int) -> tuple[list[str], list[str], dict[str, Any]]:
    """Read the ids and digests of the rows of shard i, and its column metadata, opening the file once.

    Raises:
        CacheError: the shard is missing, damaged, or was written by another program.
    """
    path = store.shard_path(cache_dir, i)
    with reading(path):
        return store.read_head(cache_dir, i)


def read_shard_columns(cache_dir: Path, i: int) -> dict[str, Any]:
    """Read the column metadata of shard i, {name: {recipe, recipe_hash, dim}}, for comparison with cache.json.

    Raises:
        CacheError: the shard is missing, damaged, or was written by another program.
    """
    path = store.shard_path(cache_dir, i)
    with reading(path):
        columns: dict[str, Any] = store.read_about(cache_dir, i)["columns"]
        return columns


def read_shard_bad(cache_dir: Path, i: int) -> list[dict[str, Any]]:
    """Run `store.read_bad` with checks: {id, path, reason} of each row of the shard that was not embedded.

    Raises:
        CacheError: the file is missing or damaged.
    """
    path = store.bad_path(cache_dir, i)
    with reading(path):
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        QUARANTINE.validate_python(rows)
        return rows


def read_quarantine(cache_dir: Path) -> list[dict[str, Any]]:
    """Read {id, path, reason} of the images of a complete cache that could not be embedded, in listing order.

    Raises:
        CacheError: the cache is incomplete, damaged or of another format.
    """
    shards = read_state(cache_dir)[1]["shards"]
    rows = []
    for i, shard in enumerate(shards):
        path, found = store.bad_path(cache_dir, i), read_shard_bad(cache_dir, i)
        if len(found) != shard["bad"]:
            raise CacheError(
                f"{path.name} must hold {things(shard['bad'], 'image', 'images')} as stated in the manifest, but "
                f"{path} holds {len(found)}. {remedy(path)}"
            )
        rows += found
    return rows


def read_recipe(cache_dir: Path, name: str, column: dict[str, Any]) -> Recipe:
    """Parse the recipe of one column of cache.json.

    Raises:
        CacheError: it is not a valid recipe, or does not match the hash stored with it.
    """
    path = cache_dir / "cache.json"
    with reading(path):
        recipe = Recipe.model_validate(column["recipe"])
    if recipe.hash != column["recipe_hash"]:
        raise CacheError(
            f"The recipe of column {name!r} must have the hash {column['recipe_hash']}, but has {recipe.hash}. {path} "
            f"was edited, or written by a version with other recipe fields. {remedy(path)}"
        )
    return recipe


def same_columns(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Return whether two column descriptions are equal; fields that an older one lacks count as their defaults."""
    if first == second:
        return True
    try:
        return _parsed(first) == _parsed(second)
    except (ValueError, LookupError, TypeError, AttributeError):  # unreadable descriptions are not equal
        return False


def _parsed(columns: dict[str, Any]) -> dict[str, tuple[Recipe, int, int | None]]:
    return {
        name: (Recipe.model_validate(column["recipe"]), column["dim"], column.get("tokens"))
        for name, column in columns.items()
    }
