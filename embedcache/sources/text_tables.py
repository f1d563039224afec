"""Tables of text that people write: CSV and Parquet, read in one way for manifests, roles and lists."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from frostbench.embedcache.plain_text import read_text


@dataclass(frozen=True)
class TextTable:
    """What was read of a file.

    Attributes:
        rows: at least the columns that were asked for and that are there.
        names: all columns of the file, in their order.
    """

    rows: pa.Table
    names: list[str]


def read_text_table(path: Path, columns: Sequence[str], what: str, header: str) -> TextTable:
    """Read columns of a CSV or Parquet file; cells of CSV stay text as written: NA and 007 are good names.

    CSV is UTF-8, or UTF-16 with or without a byte order mark; quoted cells may hold line breaks.

    Args:
        path: of the file.
        columns: to read, those of them that are there.
        what: the file is, such as "a manifest", for messages.
        header: the columns it needs, in words.

    Raises:
        ValueError: there is no such file, it has another ending, cannot be read, or has one of the columns twice.
    """
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise ValueError(f"{what} must be a .csv or .parquet file, however: {path} ends in {suffix!r}. Convert it.")
    if not path.is_file():
        told = "is none" if path.exists() else "does not exist"
        raise ValueError(f"{what} must be a file, however: {path} {told}. Is the path right?")
    try:
        table = _read_csv(path, columns, what) if suffix == ".csv" else _read_parquet(path, columns)
    except (OSError, pa.ArrowException) as error:
        advice = f"Give it a header with {header}, and as many cells in every row."
        advice = advice if suffix == ".csv" else "Write it anew."
        told = str(error).rstrip(".")
        raise ValueError(f"{what} must be a readable {suffix} file, however: {path}: {told}. {advice}") from error
    twice = sorted({name for name in columns if table.names.count(name) > 1})
    if twice:
        raise ValueError(
            f"{what} must have each of its columns once, however: {path} has {', '.join(twice)} more than once. Remove "
            "or rename one."
        )
    return table


def _read_csv(path: Path, columns: Sequence[str], what: str) -> TextTable:
    text = read_text(path, what)
    convert = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string()), strings_can_be_null=False)
    # Without this a quoted cell with a line break is read, or not, by where the reader's blocks end.
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    table = pyarrow.csv.read_csv(pa.BufferReader(text.encode()), parse_options=parse, convert_options=convert)
    return TextTable(table, table.column_names)


def _read_parquet(path: Path, columns: Sequence[str]) -> TextTable:
    names = pq.read_schema(path).names
    # Folders in its path such as group=3 are no columns.
    return TextTable(pq.read_table(path, columns=[n for n in names if n in set(columns)], partitioning=None), names)
