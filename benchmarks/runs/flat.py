"""Updates the flat file of a store's runs incrementally: rows are kept as long as their record does not change.

The metadata of the file holds the modification time and size of the record behind each row.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

FORMAT = 1
"""Version of the rows; increase it when the same record gives a different row, so that all records are read again."""
META = b"frostbench_records"
Stamps = Mapping[str, tuple[int, int]]
"""Modification time (ns since 1970) and size in bytes of each record, by run key."""


def stamps_of(records: Mapping[str, str | Path]) -> dict[str, tuple[int, int]]:
    """Return the stamps of records by run key, without records that no longer exist."""
    stamps = {}
    for key, path in records.items():
        try:
            stat = os.stat(path)  # noqa: PTH116 (ten thousand paths as text take half the time)
        except (FileNotFoundError, NotADirectoryError):
            continue
        stamps[key] = (stat.st_mtime_ns, stat.st_size)
    return stamps


def kept_rows(path: Path, stamps: Stamps, columns: Sequence[str] | None = None) -> pa.Table | None:
    """Return the rows of a flat file whose records have not changed, or None if there are none.

    A file that is missing, damaged or of another format has none; it is only a view and is rebuilt.
    """
    try:
        file = pq.ParquetFile(path)
        known = json.loads((file.schema_arrow.metadata or {})[META])
        if known["format"] != FORMAT:
            return None
        rows = file.read(columns=None if columns is None else ["key", *columns])
    except (OSError, KeyError, TypeError, ValueError, RecursionError, pa.ArrowException):
        return None
    written = known["written"]
    keep = [key in stamps and written.get(key) == list(stamps[key]) for key in rows["key"].to_pylist()]
    kept = rows.filter(pa.array(keep, pa.bool_()))
    return kept if len(kept) else None


def joined(kept: pa.Table | None, new: pd.DataFrame, stamps: Stamps) -> pa.Table:
    """Join kept and new rows into one table sorted by key, with the stamps of its rows in its metadata."""
    fresh = pa.Table.from_pandas(new, preserve_index=False) if len(new) else None
    parts = [part.replace_schema_metadata(None) for part in (kept, fresh) if part is not None]
    if not parts:
        return pa.table({})
    table = pa.concat_tables(parts, promote_options="permissive").sort_by("key")
    written = {key: list(stamps[key]) for key in table["key"].to_pylist()}
    # Drop options that no remaining run changes.
    unused = [n for n in table.column_names if n.startswith("spec.") and table[n].null_count == len(table)]
    table = table.drop_columns(unused)
    return table.replace_schema_metadata({META: json.dumps({"format": FORMAT, "written": written}).encode()})
