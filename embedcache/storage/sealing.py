"""The manifest's digests of the files beside the shards: written with it, and compared at each opening."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from frostbench.embedcache.hashes import file_sha256
from frostbench.embedcache.storage.damage import is_imported, reading
from frostbench.embedcache.storage.digests import sha256_now
from frostbench.embedcache.storage.files import CacheError, read_json, write_json

SEALED: Mapping[str, str] = MappingProxyType({"cache.json": "cache_sha256", "views.parquet": "views_sha256"})
"""Files whose SHA-256 stands in the manifest, and under which key; manifests of earlier versions lack them."""


def seals_of(cache_dir: Path) -> dict[str, str]:
    """The SHA-256 of cache.json and, in a view set, of views.parquet, under their keys of the manifest."""
    there = {key: cache_dir / name for name, key in SEALED.items() if (cache_dir / name).is_file()}
    return {key: file_sha256(path) for key, path in there.items()}


def seal(cache_dir: Path) -> None:
    """Write the SHA-256 of cache.json and views.parquet, as they are now, into a manifest that is there."""
    path = cache_dir / "manifest.json"
    write_json(path, read_json(path) | seals_of(cache_dir))


def check_unchanged(cache_dir: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse a cache.json or views.parquet that is not the one its manifest was written for.

    Manifests of earlier versions state neither; `frostbench cache doctor --repair` adds what is missing.

    Raises:
        CacheError: one was changed.
    """
    for name, key in SEALED.items():
        stated, path = manifest.get(key), cache_dir / name
        # A view set without views.parquet is unfinished, which whoever reads it tells.
        if stated is not None and path.exists():
            with reading(path):
                found = sha256_now(path)
            if found != stated:
                raise CacheError(
                    f"{name} must be as it was written, however: that of {cache_dir} was changed since. {undo(path)}"
                )


def undo(path: Path) -> str:
    """What the owner of a cache can do about a file that was edited or damaged and can be read."""
    if path.name == "views.parquet":
        return "Put the old file back, or delete this view set and make it again."
    again = "import the vectors" if is_imported(path.parent) else "embed the images"
    return f"Put the old file back, or {again} again into a new folder."
