"""Check of a cache on disk for the work that is left: missing and damaged shards, and changed images."""

from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from frostbench.embedcache.extraction.pipeline import content_digest
from frostbench.embedcache.hashes import file_sha256
from frostbench.embedcache.items import Item
from frostbench.embedcache.storage.damage import MISREAD
from frostbench.embedcache.storage.layout import Layout
from frostbench.embedcache.storage.state import same_columns
from frostbench.embedcache.storage.store import (
    bad_path,
    finished_shards,
    read_about,
    read_bad,
    read_json,
    read_keys,
    shard_name,
    shard_path,
)


@dataclass(frozen=True)
class Todo:
    """Unfinished shard.

    Attributes:
        shard: index of the shard.
        listed: all items of the shard.
        again: items to embed; all items if the shard is not on disk.
        is_stored: whether the rows of the other items are on disk.
    """

    shard: int
    listed: tuple[Item, ...]
    again: tuple[Item, ...]
    is_stored: bool


@dataclass
class _Findings:
    """Names of damaged shards, and ids of changed images: embedded ones in `changed`, quarantined ones in `mended`."""

    damaged: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    mended: list[str] = field(default_factory=list)

    def sentences(self) -> list[str]:
        """Return one warning for each kind of finding."""
        again = "They are embedded again; the other rows of their shards are kept."
        kinds = {
            "Damaged shards": (self.damaged, "Their images are embedded again."),
            "Images whose files changed or disappeared since they were embedded": (self.changed, again),
            "Quarantined images whose files changed or are to be retried": (self.mended, again),
        }
        return [
            f"{what}: {len(names)} ({', '.join(names[:3])}{' …' if len(names) > 3 else ''}). {consequence}"
            for what, (names, consequence) in kinds.items()
            if names
        ]


def reopen(cache_dir: Path, layout: Layout, workers: int) -> tuple[list[Todo], list[str]]:
    """Delete damaged shards, and the manifest if any work is left, and return that work.

    A shard is intact if its file has the SHA-256 stated in the manifest (without a manifest: if its page checksums are
    correct), it has this cache's recipes, and rows and quarantine together match the listing. A row is valid if the
    file of its item has not changed.

    Args:
        cache_dir: cache that was created with these items.
        layout: the listing, shard by shard.
        workers: number of threads that read the images.

    Returns:
        The unfinished shards in order, and a warning for each kind of finding.
    """
    findings, todo = _Findings(drop_damaged(cache_dir, layout)), []
    finished = finished_shards(cache_dir)
    with ThreadPoolExecutor(workers, thread_name_prefix="hash") as pool:
        for i, listed in enumerate(layout.shards):
            again = _stale(cache_dir, i, listed, pool, findings) if i in finished else listed
            if again or i not in finished:
                todo.append(Todo(i, listed, again, i in finished))
    if todo:
        (cache_dir / "manifest.json").unlink(missing_ok=True)
    return todo, findings.sentences()


def drop_damaged(cache_dir: Path, layout: Layout) -> list[str]:
    """Delete damaged shards together with the manifest, and return their names."""
    damaged = find_damaged(cache_dir, layout)
    if damaged:
        (cache_dir / "manifest.json").unlink(missing_ok=True)
    for i in damaged:
        drop_shard(cache_dir, i)
    return [shard_name(i) for i in damaged]


def drop_shard(cache_dir: Path, i: int) -> None:
    """Delete a shard, rows first: without them it counts as unfinished if the process is killed in between."""
    shard_path(cache_dir, i).unlink(missing_ok=True)
    bad_path(cache_dir, i).unlink(missing_ok=True)


def find_damaged(cache_dir: Path, layout: Layout, selected: Callable[[int], bool] = lambda i: True) -> list[int]:
    """Return the selected shards on disk that are damaged or do not match the listing."""
    manifest = cache_dir / "manifest.json"
    digests = [shard["sha256"] for shard in read_json(manifest)["shards"]] if manifest.exists() else []
    columns = read_json(cache_dir / "cache.json")["columns"]
    damaged = []
    for i in sorted(filter(selected, finished_shards(cache_dir))):
        stored = read_digests(cache_dir, i, digests[i] if i < len(digests) else None)
        listed = {item.id for item in layout.shards[i]} if i < len(layout.shards) else None
        if stored is None or stored.keys() != listed or not _has_columns(cache_dir, i, columns):
            damaged.append(i)
    return damaged


def _has_columns(cache_dir: Path, i: int, columns: dict[str, Any]) -> bool:
    """Whether the metadata of a shard state these columns; files of other programs have no such metadata."""
    try:
        return same_columns(read_about(cache_dir, i)["columns"], columns)
    except MISREAD:
        return False


def _stale(cache_dir: Path, i: int, listed: tuple[Item, ...], pool: Executor, findings: _Findings) -> tuple[Item, ...]:
    """Return the items of a shard whose files changed or disappeared."""
    ids, content = read_keys(cache_dir, i)
    bad = {row["id"]: row.get("sha256") for row in read_bad(cache_dir, i)}
    stored = dict(zip(ids, content, strict=True)) | bad
    again = []
    for item, now in zip(listed, pool.map(content_digest, listed), strict=True):
        if stored[item.id] != (now and now.hex()):
            again.append(item)
            (findings.mended if item.id in bad else findings.changed).append(item.id)
    return tuple(again)


def read_digests(cache_dir: Path, i: int, digest: str | None) -> dict[str, str | None] | None:
    """Return the digest of each item in a shard, including quarantined ones, or None if its files are damaged.

    Args:
        cache_dir: cache folder.
        i: index of the shard.
        digest: SHA-256 of its Parquet file; if None, page checksums are verified instead.
    """
    path = shard_path(cache_dir, i)
    try:
        if digest is None:
            pq.ParquetFile(path, page_checksum_verification=True).read()
        elif file_sha256(path) != digest:
            return None
        ids, content = read_keys(cache_dir, i)
        return _joined(zip(ids, content, strict=True), read_bad(cache_dir, i))
    except MISREAD:
        return None


def _joined(rows: Iterable[tuple[str, str]], bad: list[dict[str, Any]]) -> dict[str, str | None] | None:
    """Return digests by id, or None if an id occurs twice."""
    pairs = [*rows, *((row["id"], row.get("sha256")) for row in bad)]
    joined = dict(pairs)
    return joined if len(joined) == len(pairs) else None
