"""What of a cache on disk still holds, and what is left to embed: missing and damaged shards, and changed images."""

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
    """A shard that something is left to do for.

    Attributes:
        shard: its number.
        listed: the items that it holds.
        again: those that are to be embedded: all, where it is not on disk.
        is_stored: whether the rows of the others are on disk.
    """

    shard: int
    listed: tuple[Item, ...]
    again: tuple[Item, ...]
    is_stored: bool


@dataclass
class _Findings:
    """What does not hold any more, and why."""

    damaged: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    mended: list[str] = field(default_factory=list)

    def sentences(self) -> list[str]:
        """One warning for each kind of finding."""
        anew = "They are embedded anew; the other rows of their shards are kept."
        kinds = {
            "Shards whose files are not as they were written": (self.damaged, "Their images are embedded anew."),
            "Images whose files changed or vanished since they were embedded": (self.changed, anew),
            "Images of the quarantine whose files changed, or may be decoded now": (self.mended, anew),
        }
        return [
            f"{what}: {len(names)} ({', '.join(names[:3])}{' …' if len(names) > 3 else ''}). {so}"
            for what, (names, so) in kinds.items()
            if names
        ]


def reopen(cache_dir: Path, layout: Layout, workers: int) -> tuple[list[Todo], list[str]]:
    """Delete the shards that are damaged, and the manifest where anything is left to do, and say what that is.

    A shard holds if its file has the SHA-256 that the manifest states (before there is one: if its page checksums
    agree), if it is of this cache's recipes, and if rows and quarantine are what is listed; a row holds if the file of
    its item has the bytes it had.

    Args:
        cache_dir: a cache that was begun with these items.
        layout: the listing, shard by shard.
        workers: threads that read the images.

    Returns:
        What is left to do, in order, and a sentence for each kind of finding, for a person.
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
    """Delete the shards that are not as they were written, and the manifest with them; returns their names."""
    damaged = find_damaged(cache_dir, layout)
    if damaged:
        (cache_dir / "manifest.json").unlink(missing_ok=True)
    for i in damaged:
        drop_shard(cache_dir, i)
    return [shard_name(i) for i in damaged]


def drop_shard(cache_dir: Path, i: int) -> None:
    """Delete a shard: its rows first, for without them it counts as unfinished, whatever else a kill leaves."""
    shard_path(cache_dir, i).unlink(missing_ok=True)
    bad_path(cache_dir, i).unlink(missing_ok=True)


def find_damaged(cache_dir: Path, layout: Layout, asked: Callable[[int], bool] = lambda i: True) -> list[int]:
    """Of the shards asked for, those on disk that are not as they were written, or that nothing is listed for."""
    manifest = cache_dir / "manifest.json"
    digests = [shard["sha256"] for shard in read_json(manifest)["shards"]] if manifest.exists() else []
    columns = read_json(cache_dir / "cache.json")["columns"]
    damaged = []
    for i in sorted(filter(asked, finished_shards(cache_dir))):
        stored = read_digests(cache_dir, i, digests[i] if i < len(digests) else None)
        listed = {item.id for item in layout.shards[i]} if i < len(layout.shards) else None
        if stored is None or stored.keys() != listed or not _is_of(cache_dir, i, columns):
            damaged.append(i)
    return damaged


def _is_of(cache_dir: Path, i: int, columns: dict[str, Any]) -> bool:
    """Whether a shard says that it has these columns; one that another program wrote says nothing."""
    try:
        return same_columns(read_about(cache_dir, i)["columns"], columns)
    except MISREAD:
        return False


def _stale(cache_dir: Path, i: int, listed: tuple[Item, ...], pool: Executor, findings: _Findings) -> tuple[Item, ...]:
    """The items of a shard whose files have other bytes than they had, or none any more."""
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
    """The digest of each item in a shard, quarantined ones included; None where its files are damaged.

    Args:
        cache_dir: the cache.
        i: the shard.
        digest: SHA-256 of its Parquet file; without one the checksums of its pages are compared.
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
    """Digests by id; None where an id occurs twice."""
    pairs = [*rows, *((row["id"], row.get("sha256")) for row in bad)]
    joined = dict(pairs)
    return joined if len(joined) == len(pairs) else None
