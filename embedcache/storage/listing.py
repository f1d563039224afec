"""items.parquet: the listed items in order, with labels, groups, given splits and times."""

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from frostbench.embedcache.sources.source import Item
from frostbench.embedcache.storage.files import CacheError, write_parquet

ITEMS_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("path", pa.binary()),
        pa.field("label", pa.string(), nullable=False),
        pa.field("group", pa.string()),
        pa.field("split", pa.string()),
        pa.field("time", pa.string()),
        pa.field("member", pa.int64()),
        pa.field("column", pa.string()),
    ]
)
LATER = ("time", "member", "column")
"""Columns missing from listings of format 1."""


def write_items(cache_dir: Path, items: Sequence[Item]) -> None:
    """Write the listing, in order, to items.parquet.

    Raises:
        CacheError: two items have the same id, or a text is not valid UTF-8.
    """
    ids = [item.id for item in items]
    check_unique(ids, "items")
    words = (
        word for item in items for word in (item.id, item.label, item.group, item.split, item.time) if word is not None
    )
    bad = next((word for word in words if not _is_utf8(word)), None)
    if bad is not None:
        raise CacheError(
            f"Ids, labels, groups, splits and times must be valid UTF-8, got {bad!a}. Change it or escape the invalid "
            "bytes."
        )
    rows = {
        "id": ids,
        "path": [None if item.path is None else os.fsencode(item.path) for item in items],
        "label": [item.label for item in items],
        "group": [item.group for item in items],
        "split": [item.split for item in items],
        "time": [item.time for item in items],
        "member": [item.member for item in items],
        "column": [item.column for item in items],
    }
    write_parquet(cache_dir / "items.parquet", pa.table(rows, schema=ITEMS_SCHEMA))


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def read_items(cache_dir: Path, known: Iterable[Item] = ()) -> tuple[Item, ...]:
    """Read the complete listing of a cache, including items that could not be embedded.

    Args:
        cache_dir: the cache.
        known: items whose Path objects are reused for equal paths, because creating them takes most of the time.
    """
    paths = {os.fsencode(item.path): item.path for item in known if item.path is not None}
    return _as_items(pq.read_table(cache_dir / "items.parquet", partitioning=None), paths)


def read_items_between(cache_dir: Path, start: int, stop: int) -> tuple[Item, ...]:
    """Read the rows start..stop-1 of a listing, without reading other row groups."""
    with pq.ParquetFile(cache_dir / "items.parquet") as file:
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        first = [0, *accumulate(sizes)]
        groups = [i for i in range(len(sizes)) if first[i] < stop and first[i + 1] > start]
        table = file.read_row_groups(groups) if groups else file.schema_arrow.empty_table()
    before = first[groups[0]] if groups else start
    return _as_items(table.slice(start - before, stop - start), {})


def _as_items(table: pa.Table, paths: Mapping[bytes, Path]) -> tuple[Item, ...]:
    columns = table.to_pydict()
    places = [None if raw is None else paths.get(raw) or Path(os.fsdecode(raw)) for raw in columns["path"]]
    names = [name for name in ITEMS_SCHEMA.names if name != "path"]
    cells = [columns.get(name, [None] * len(places)) for name in names if name in columns or name in LATER]
    rows = zip(places, *cells, strict=True)
    return tuple(
        Item(one, path, label, group, split, time, member, column)
        for path, one, label, group, split, time, member, column in rows
    )


def check_unique(ids: Sequence[str], what: str, repair: str = "Drop or rename one.") -> None:
    """Check that all ids are different.

    Raises:
        CacheError: an id occurs twice; the message names the first.
    """
    seen: set[str] = set()
    for one in ids:
        if one in seen:
            raise CacheError(f"Ids of {what} must be unique, but {one!r} occurs twice. {repair}")
        seen.add(one)


def read_item_columns(cache_dir: Path) -> dict[str, list[Any]]:
    """Read the columns id, label, group, split and time of a listing; much faster than `read_items` for many rows."""
    path = cache_dir / "items.parquet"
    there = pq.read_schema(path).names
    names = [name for name in ITEMS_SCHEMA.names if name not in ("path", "member", "column")]
    table = pq.read_table(path, columns=[n for n in names if n in there or n not in LATER], partitioning=None)
    lacking = {name: [None] * table.num_rows for name in names if name not in table.column_names}
    return {name: table[name].to_pylist() for name in table.column_names} | lacking


def rows_of(listed: Sequence[str], ids: Sequence[str]) -> list[int]:
    """Return the listing row of each id.

    Raises:
        CacheError: an id is not listed.
    """
    row_of = {one: row for row, one in enumerate(listed)}
    lost = next((one for one in ids if one not in row_of), None)
    if lost is not None:
        raise CacheError(
            f"Every row must be listed in items.parquet, but {lost!r} is not. If a shard is from another cache, "
            "restore the original one."
        )
    return [row_of[one] for one in ids]


def effective_groups(groups: Sequence[str | None], content: Sequence[str]) -> list[str]:
    """Return the group of each row; a row without a group is grouped with its byte-identical copies.

    >>> effective_groups(["g", None], ["f00d", "beef"])
    ['g', 'beef']
    """
    return [group or digest for group, digest in zip(groups, content, strict=True)]
