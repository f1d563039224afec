"""Writing files so that a crash leaves the old one or the new one, and equal content gives equal bytes."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROWS_PER_GROUP = 32_768


class CacheError(ValueError):
    """A cache on disk is unfinished, damaged, of another format, or does not hold what was asked for."""


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or a crash, sees the old file or the new one, never a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(path)
    with partial.open("wb") as file:
        file.write(content)
    _publish(partial, path)


def _partial(path: Path) -> Path:
    """Where a file is written before it gets its name; two processes that make the same file do not meet there."""
    return path.with_name(f"{path.name}.{os.getpid()}.tmp")


def _publish(partial: Path, path: Path) -> None:
    """Bring a finished partial file to the disk, give it its name, and bring the name to the disk."""
    sync(partial)
    partial.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, tree: Any) -> None:
    """Write a JSON file atomically, with sorted keys, so that equal trees give equal bytes."""
    text = json.dumps(tree, sort_keys=True, indent=1, ensure_ascii=True, allow_nan=False)
    write_bytes(path, (text + "\n").encode("ascii"))


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        CacheError: the file is not JSON.
        FileNotFoundError: there is no such file.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise CacheError(f"{path} must hold JSON, however: {error}. Was it edited by hand? Restore it.") from error


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write a table atomically in the plain layout: no compression, dictionary or statistics; page checksums."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(path)
    pq.write_table(
        table,
        partial,
        row_group_size=ROWS_PER_GROUP,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
    )
    _publish(partial, path)
