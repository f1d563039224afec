"""What of a cache on disk still holds: damaged shards and shards of changed images are embedded anew."""

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from embedcache.hashes import file_sha256
from embedcache.items import Item
from embedcache.pipeline import content_digest
from embedcache.store import bad_path, finished_shards, read_bad, read_json, read_keys, shard_name, shard_path


@dataclass
class _Findings:
    """The shards that do not hold any more, and why."""

    shards: set[int] = field(default_factory=set)
    damaged: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    mended: list[str] = field(default_factory=list)

    def sentences(self) -> list[str]:
        """One warning for each kind of finding."""
        kinds = {
            "Shards whose files are not as they were written": self.damaged,
            "Images whose files changed or vanished since they were embedded": self.changed,
            "Images of the quarantine whose files changed, or may be decoded now": self.mended,
        }
        return [
            f"{what}: {len(names)} ({', '.join(names[:3])}{' …' if len(names) > 3 else ''}). They are embedded anew, "
            "with everything in the same shards."
            for what, names in kinds.items()
            if names
        ]


def drop_stale(cache_dir: Path, items: Sequence[Item], shard_rows: int, workers: int) -> list[str]:
    """Delete the shards that do not hold any more, and the manifest where anything is left to do.

    A shard holds if its file has the SHA-256 that the manifest states (before there is one: if its page checksums
    agree), if rows and quarantine are what is listed, and if the file of every item has the bytes it had.

    Args:
        cache_dir: a cache that was begun with these items.
        items: the listing.
        shard_rows: items in a shard.
        workers: threads that read the images.

    Returns:
        A sentence for each kind of finding, for a person.
    """
    manifest = cache_dir / "manifest.json"
    digests = [shard["sha256"] for shard in read_json(manifest)["shards"]] if manifest.exists() else []
    finished, findings = finished_shards(cache_dir), _Findings()
    with ThreadPoolExecutor(workers, thread_name_prefix="hash") as pool:
        for i in sorted(finished):
            listed = items[i * shard_rows : (i + 1) * shard_rows]
            _examine(cache_dir, i, listed, digests[i] if i < len(digests) else None, pool, findings)
    if findings.shards or len(finished) * shard_rows < len(items):
        manifest.unlink(missing_ok=True)
    for i in sorted(findings.shards):
        # The Parquet file first: without it the shard counts as unfinished, whatever else a kill leaves.
        shard_path(cache_dir, i).unlink()
        bad_path(cache_dir, i).unlink(missing_ok=True)
    return findings.sentences()


def _examine(
    cache_dir: Path, i: int, listed: Sequence[Item], digest: str | None, pool: Executor, findings: _Findings
) -> None:
    stored = _read_shard(cache_dir, i, digest)
    if stored is None or stored.keys() != {item.id for item in listed}:
        findings.shards.add(i)
        findings.damaged.append(shard_name(i))
        return
    quarantined = {row["id"] for row in read_bad(cache_dir, i)}
    for item, now in zip(listed, pool.map(content_digest, listed), strict=True):
        if stored[item.id] != (now and now.hex()):
            findings.shards.add(i)
            (findings.mended if item.id in quarantined else findings.changed).append(item.id)


def _read_shard(cache_dir: Path, i: int, digest: str | None) -> dict[str, str | None] | None:
    """The digest of each item in a shard, quarantined ones included; None where its files are damaged."""
    path = shard_path(cache_dir, i)
    try:
        if digest is None:
            pq.ParquetFile(path, page_checksum_verification=True).read()
        elif file_sha256(path) != digest:
            return None
        ids, content = read_keys(cache_dir, i)
        return _joined(zip(ids, content, strict=True), read_bad(cache_dir, i))
    # pyarrow raises any of these for a damaged file, depending on where the damage is.
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _joined(rows: Iterable[tuple[str, str]], bad: list[dict[str, Any]]) -> dict[str, str | None] | None:
    """Digests by id; None where an id occurs twice."""
    pairs = [*rows, *((row["id"], row.get("sha256")) for row in bad)]
    joined = dict(pairs)
    return joined if len(joined) == len(pairs) else None
