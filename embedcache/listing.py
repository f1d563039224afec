"""items.parquet: what was asked to be embedded, in order, with labels, groups and given splits."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from embedcache.files import CacheError, write_parquet
from embedcache.sources import Item

ITEMS_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("path", pa.binary()),
        pa.field("label", pa.string(), nullable=False),
        pa.field("group", pa.string()),
        pa.field("split", pa.string()),
    ]
)


def write_items(cache_dir: Path, items: Sequence[Item]) -> None:
    """Write the listing, in order, to items.parquet.

    Raises:
        CacheError: two items share an id, or a text is not valid UTF-8.
    """
    ids = [item.id for item in items]
    check_unique(ids, "items")
    words = (word for item in items for word in (item.id, item.label, item.group, item.split) if word is not None)
    bad = next((word for word in words if not _is_utf8(word)), None)
    if bad is not None:
        raise CacheError(f"ids, labels and groups must be UTF-8 text, however: {bad!a} is not. Escape its odd bytes.")
    rows = {
        "id": ids,
        "path": [None if item.path is None else os.fsencode(item.path) for item in items],
        "label": [item.label for item in items],
        "group": [item.group for item in items],
        "split": [item.split for item in items],
    }
    write_parquet(cache_dir / "items.parquet", pa.table(rows, schema=ITEMS_SCHEMA))


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def read_items(cache_dir: Path) -> tuple[Item, ...]:
    """The listing of a cache, in order, whether or not its images could be embedded."""
    rows = pq.read_table(cache_dir / "items.parquet", schema=ITEMS_SCHEMA).to_pylist()
    return tuple(
        Item(
            id=row["id"],
            path=None if row["path"] is None else Path(os.fsdecode(row["path"])),
            label=row["label"],
            group=row["group"],
            split=row["split"],
        )
        for row in rows
    )


def check_unique(ids: Sequence[str], what: str) -> None:
    """Refuse a repeated id, naming the first one.

    Raises:
        CacheError: an id occurs twice.
    """
    seen: set[str] = set()
    for one in ids:
        if one in seen:
            raise CacheError(f"ids must be unique among the {what}, however: {one!r} occurs twice. Drop or rename one.")
        seen.add(one)


def read_item_columns(cache_dir: Path) -> dict[str, list[Any]]:
    """The columns id, label, group and split of the listing: for a million rows much faster than `read_items`."""
    names = [name for name in ITEMS_SCHEMA.names if name != "path"]
    table = pq.read_table(cache_dir / "items.parquet", columns=names, partitioning=None)
    return {name: table[name].to_pylist() for name in names}


def rows_of(listed: Sequence[str], ids: Sequence[str]) -> list[int]:
    """The listing row of each id.

    Raises:
        CacheError: an id is not in the listing.
    """
    row_of = {one: row for row, one in enumerate(listed)}
    lost = next((one for one in ids if one not in row_of), None)
    if lost is not None:
        raise CacheError(
            f"every row must be listed in items.parquet, however: {lost!r} is not. Is a shard from another cache?"
        )
    return [row_of[one] for one in ids]


def effective_groups(groups: Sequence[str | None], content: Sequence[str]) -> list[str]:
    """The group of each row; a row without one is grouped with its byte-identical copies.

    >>> effective_groups(["g", None], ["f00d", "beef"])
    ['g', 'beef']
    """
    return [group or digest for group, digest in zip(groups, content, strict=True)]
