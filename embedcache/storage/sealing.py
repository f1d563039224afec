"""Digests, stored in the manifest, of the files beside the shards; compared at every opening."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from frostbench.embedcache.hashes import file_sha256
from frostbench.embedcache.storage.damage import is_imported, reading
from frostbench.embedcache.storage.digests import sha256_now
from frostbench.embedcache.storage.files import CacheError, read_json, write_json

SEALED: Mapping[str, str] = MappingProxyType({"cache.json": "cache_sha256", "views.parquet": "views_sha256"})
"""Files whose SHA-256 is in the manifest, and its key there; older manifests lack these keys."""


def seals_of(cache_dir: Path) -> dict[str, str]:
    """Compute the SHA-256 of cache.json and, in a view set, of views.parquet, by manifest key."""
    there = {key: cache_dir / name for name, key in SEALED.items() if (cache_dir / name).is_file()}
    return {key: file_sha256(path) for key, path in there.items()}


def seal(cache_dir: Path) -> None:
    """Add the current SHA-256 of cache.json and views.parquet to an existing manifest."""
    path = cache_dir / "manifest.json"
    write_json(path, read_json(path) | seals_of(cache_dir))


def check_unchanged(cache_dir: Path, manifest: Mapping[str, Any]) -> None:
    """Check that cache.json and views.parquet are unchanged since the manifest was written.

    Older manifests lack these digests; `frostbench cache doctor --repair` adds them.

    Raises:
        CacheError: a file was changed.
    """
    for name, key in SEALED.items():
        stated, path = manifest.get(key), cache_dir / name
        # A view set without views.parquet is incomplete; its reader reports that.
        if stated is not None and path.exists():
            with reading(path):
                found = sha256_now(path)
            if found != stated:
                raise CacheError(
                    f"{name} must be unchanged since it was written, but that of {cache_dir} was changed. {undo(path)}"
                )


def undo(path: Path) -> str:
    """Return advice on a readable file that was edited or damaged."""
    if path.name == "views.parquet":
        return "Restore the old file, or delete this view set and make it again."
    again = "import the vectors" if is_imported(path.parent) else "embed the images"
    return f"Restore the old file, or {again} again into a new folder."
