"""SHA-256 checks of cache files at every opening; each digest is computed once while the file is unchanged."""

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

from frostbench.embedcache.hashes import file_sha256
from frostbench.embedcache.storage.damage import reading, remedy
from frostbench.embedcache.storage.files import CacheError

SETTLED_NS = 2_000_000_000
"""Digests of files written more recently than this are not cached: another write could leave the same timestamps."""


def sha256_now(path: Path) -> str:
    """Return the SHA-256 of a file in hex; the file is read again only if its size, inode or timestamps changed.

    Raises:
        OSError: the file is missing or cannot be read.
    """
    found = path.stat()
    if time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) < SETTLED_NS:
        return file_sha256(path)
    return _remembered(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@lru_cache(maxsize=65_536)
def _remembered(path: Path, *_identity: int) -> str:
    return file_sha256(path)


def check_digest(path: Path, stated: str) -> None:
    """Check that a cache file has the SHA-256 stated in the manifest.

    Raises:
        CacheError: it is missing or has different bytes.
    """
    with reading(path):
        found = sha256_now(path)
    if found != stated:
        raise CacheError(
            f"{path.name.split('.')[0]} must have the SHA-256 {stated[:12]}… stated in the manifest, but {path} has "
            f"{found[:12]}…, so it changed since it was written. {remedy(path)}"
        )


def check_digests(paths: Sequence[Path], stated: Sequence[str]) -> None:
    """Run `check_digest` on several files in parallel.

    Raises:
        CacheError: a file is missing or has different bytes.
    """
    with ThreadPoolExecutor(max(1, min(len(paths), _cores())), thread_name_prefix="digest") as pool:
        for _ in pool.map(check_digest, paths, stated):
            pass


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def digests_of(manifest: Mapping[str, Any]) -> list[str]:
    """Return the SHA-256 of each shard stated in a manifest."""
    return [shard["sha256"] for shard in manifest["shards"]]
