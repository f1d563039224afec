"""Rewriting shards with rows removed or replaced, without embedding the other rows again."""

import json
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from frostbench.embedcache.items import Item, escape_name
from frostbench.embedcache.storage.files import write_json, write_parquet
from frostbench.embedcache.storage.staging import commit, scratch, staged
from frostbench.embedcache.storage.store import METADATA_KEY, bad_path, read_bad, read_keys, shard_path

Bad = list[dict[str, Any]]


def stage_kept(cache_dir: Path, i: int, kept: Sequence[Item]) -> None:
    """Stage shard i reduced to the given items, with their current paths. Unchanged files are not staged."""
    there, bad = {item.id for item in kept}, read_bad(cache_dir, i)
    stays = [one in there for one in read_keys(cache_dir, i)[0]]
    if not all(stays):
        write_parquet(shard_path(staged(cache_dir), i), _counted(_only(_read_rows(cache_dir, i), stays)))
    paths = {item.id: escape_name(os.fspath(item.path or "")) for item in kept}
    still_bad = [row | {"path": paths[row["id"]]} for row in bad if row["id"] in there]
    if still_bad != bad:
        write_json(bad_path(staged(cache_dir), i), still_bad)


def replace_rows(
    cache_dir: Path, i: int, listed: Sequence[Item], again: Collection[Item], write: Callable[[Path, int], None]
) -> tuple[int, int]:
    """Replace re-embedded rows of shard i and keep the bytes of the others.

    Args:
        cache_dir: the cache.
        i: number of the shard.
        listed: its items, in order.
        again: the items that were embedded again.
        write: function that writes their rows and quarantine as shard i of another folder.

    Returns:
        Numbers of rows and of quarantined items in the shard.
    """
    write(scratch(cache_dir), i)
    fresh, old = _read_rows(scratch(cache_dir), i), _read_rows(cache_dir, i)
    again_ids, place = {item.id for item in again}, {item.id: row for row, item in enumerate(listed)}
    kept = _only(old, [one not in again_ids for one in old["id"].to_pylist()])
    # The new rows have the current schema; the stored ones may have an older one.
    rows = pa.concat_tables([kept.select(fresh.column_names).cast(fresh.schema), fresh]).combine_chunks()
    places = [place[one] for one in rows["id"].to_pylist()]
    rows = rows.take(pa.array(sorted(range(len(places)), key=places.__getitem__), pa.int64()))
    bad: Bad = [row for row in read_bad(cache_dir, i) if row["id"] not in again_ids] + read_bad(scratch(cache_dir), i)
    write_json(bad_path(staged(cache_dir), i), sorted(bad, key=lambda row: place[row["id"]]))
    write_parquet(shard_path(staged(cache_dir), i), _counted(rows))
    commit(cache_dir)
    return rows.num_rows, len(bad)


def _read_rows(cache_dir: Path, i: int) -> pa.Table:
    with pq.ParquetFile(shard_path(cache_dir, i), page_checksum_verification=True) as file:
        return file.read()


def _only(rows: pa.Table, mask: Sequence[bool]) -> pa.Table:
    return rows.filter(pa.array(mask, pa.bool_()))


def _counted(rows: pa.Table) -> pa.Table:
    """Combine the chunks, and update the row count in the shard's metadata."""
    metadata = dict(rows.schema.metadata)
    about = json.loads(metadata[METADATA_KEY]) | {"n": rows.num_rows}
    metadata[METADATA_KEY] = json.dumps(about, sort_keys=True).encode()
    return rows.combine_chunks().replace_schema_metadata(metadata)
