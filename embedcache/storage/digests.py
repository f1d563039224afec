"""Whether files are as they were written: their SHA-256, compared at each opening and computed once while they stay."""

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
"""A file that was written less than this long ago is not remembered: its next change may bear the same times."""


def sha256_now(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex; not read again while size, inode and times of change are what they were.

    Raises:
        OSError: the file is gone or cannot be read.
    """
    found = path.stat()
    if time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) < SETTLED_NS:
        return file_sha256(path)
    return _remembered(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@lru_cache(maxsize=65_536)
def _remembered(path: Path, *_identity: int) -> str:
    return file_sha256(path)


def check_digest(path: Path, stated: str) -> None:
    """Refuse a file of a cache whose bytes do not have the SHA-256 that its manifest states.

    Raises:
        CacheError: it is gone, or has other bytes.
    """
    with reading(path):
        found = sha256_now(path)
    if found != stated:
        raise CacheError(
            f"{path.name.split('.')[0]} must have the SHA-256 {stated[:12]}… of the manifest, however: {path} has "
            f"{found[:12]}…: other bytes than were written. {remedy(path)}"
        )


def check_digests(paths: Sequence[Path], stated: Sequence[str]) -> None:
    """As `check_digest` for several files, as many at a time as there are cores.

    Raises:
        CacheError: one is gone, or has other bytes.
    """
    with ThreadPoolExecutor(max(1, min(len(paths), _cores())), thread_name_prefix="digest") as pool:
        for _ in pool.map(check_digest, paths, stated):
            pass


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def digests_of(manifest: Mapping[str, Any]) -> list[str]:
    """The SHA-256 of each shard, as a manifest states them."""
    return [shard["sha256"] for shard in manifest["shards"]]
