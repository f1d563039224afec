"""The flat file of a store's runs, brought up to date: a record is read once, and its row kept as long as it stays.

The file's own metadata says of which version of which record each row is, so that nothing else has to be believed.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

FORMAT = 1
"""Of the rows; raised when the same record gives another row, and then all are read anew."""
META = b"frostbench_records"
Stamps = Mapping[str, tuple[int, int]]
"""By run key, when its record was written, in nanoseconds since 1970, and its bytes."""


def stamps_of(records: Mapping[str, Path]) -> dict[str, tuple[int, int]]:
    """The stamps of records by run key, from their files; one that is gone meanwhile is left out."""
    found = {}
    for key, path in records.items():
        try:
            facts = path.stat()
        except FileNotFoundError:
            continue
        found[key] = (facts.st_mtime_ns, facts.st_size)
    return found


def kept_rows(path: Path, stamps: Stamps, columns: Sequence[str] | None = None) -> pa.Table | None:
    """The rows of a flat file that are those of the records as they are now; None where there are none.

    A file that is missing, damaged or of another format has none: it is only a view, and is written anew.
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
    found = rows.filter(pa.array(keep, pa.bool_()))
    return found if len(found) else None


def joined(kept: pa.Table | None, new: pd.DataFrame, stamps: Stamps) -> pa.Table:
    """Kept rows and new ones as one table by key, with the stamps of its rows in its metadata."""
    fresh = pa.Table.from_pandas(new, preserve_index=False) if len(new) else None
    parts = [part.replace_schema_metadata(None) for part in (kept, fresh) if part is not None]
    if not parts:
        return pa.table({})
    table = pa.concat_tables(parts, promote_options="permissive").sort_by("key")
    written = {key: list(stamps[key]) for key in table["key"].to_pylist()}
    # An option that no run differs in any more goes with the last run that did.
    unused = [n for n in table.column_names if n.startswith("spec.") and table[n].null_count == len(table)]
    table = table.drop_columns(unused)
    return table.replace_schema_metadata({META: json.dumps({"format": FORMAT, "written": written}).encode()})
