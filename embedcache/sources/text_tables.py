"""Reading CSV and Parquet tables, for manifests, role files and class lists."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from frostbench.embedcache.plain_text import read_text


@dataclass(frozen=True)
class TextTable:
    """Rows and column names of a file.

    Attributes:
        rows: the requested columns that exist, possibly with others.
        names: all column names of the file, in order.
    """

    rows: pa.Table
    names: list[str]


def read_text_table(path: Path, columns: Sequence[str], what: str, header: str) -> TextTable:
    """Read columns of a CSV or Parquet file; CSV cells stay text as written, so NA and 007 are valid names.

    CSV is UTF-8, or UTF-16 with or without a byte order mark; quoted cells may contain line breaks.

    Args:
        path: the file.
        columns: columns to read, if they exist.
        what: what the file is, such as "a manifest", for messages.
        header: the columns it needs, in words.

    Raises:
        ValueError: there is no such file, it is neither .csv nor .parquet, cannot be read, or has a column twice.
    """
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise ValueError(f"{what} must be a .csv or .parquet file, but {path} ends in {suffix!r}. Convert it.")
    if not path.is_file():
        problem = "is not" if path.exists() else "does not exist"
        raise ValueError(f"{what} must be a file, but {path} {problem}. Check the path.")
    try:
        table = _read_csv(path, columns, what) if suffix == ".csv" else _read_parquet(path, columns)
    except (OSError, pa.ArrowException) as error:
        advice = f"It needs a header with {header}, and the same number of cells in every row."
        advice = advice if suffix == ".csv" else "Write it again."
        problem = str(error).rstrip(".")
        raise ValueError(f"{what} must be a readable {suffix} file, but {path} is not: {problem}. {advice}") from error
    twice = sorted({name for name in columns if table.names.count(name) > 1})
    if twice:
        raise ValueError(
            f"{what} must have each of its columns once, but {path} has {', '.join(twice)} more than once. Remove "
            "or rename one."
        )
    return table


def _read_csv(path: Path, columns: Sequence[str], what: str) -> TextTable:
    text = read_text(path, what)
    convert = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string()), strings_can_be_null=False)
    # Otherwise a quoted cell with a line break fails if it crosses the end of a block.
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    table = pyarrow.csv.read_csv(pa.BufferReader(text.encode()), parse_options=parse, convert_options=convert)
    return TextTable(table, table.column_names)


def _read_parquet(path: Path, columns: Sequence[str]) -> TextTable:
    names = pq.read_schema(path).names
    # Do not parse folders such as group=3 in the path as columns.
    return TextTable(pq.read_table(path, columns=[n for n in names if n in set(columns)], partitioning=None), names)
