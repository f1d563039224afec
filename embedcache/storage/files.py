"""Atomic, deterministic writing of JSON and Parquet files."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from frostbench.embedcache.outputs.writing import new_file, write_bytes
from frostbench.embedcache.outputs.writing import sync as sync

ROWS_PER_GROUP = 32_768


class CacheError(ValueError):
    """A cache on disk is incomplete, damaged, of another format, or does not contain what was requested."""


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
        raise CacheError(f"{path} must be valid JSON, but is not: {error}. Restore it if it was edited.") from error


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write a table atomically, without compression, dictionary or statistics, with page checksums."""
    with new_file(path) as partial:
        pq.write_table(
            table,
            partial,
            row_group_size=ROWS_PER_GROUP,
            compression="none",
            use_dictionary=False,
            write_statistics=False,
            write_page_checksum=True,
        )
