"""The file of label corrections: reading it, adding to it, and which line of an image counts."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from frostbench.embedcache.cells import column_texts
from frostbench.embedcache.outputs.writing import write_bytes
from frostbench.embedcache.sources.text_tables import read_text_table

COLUMNS = ("id", "old", "new", "who", "when")
WHAT = "A file of label corrections"
HEADER = "the columns id, old and new (and who and when, if you like)"


class LabelError(ValueError):
    """Label corrections that cannot be read or do not fit the cache."""


class Correction(NamedTuple):
    """A line of the file.

    Attributes:
        id: id of the image in the cache.
        old: its label when the line was written, or "" if it had none.
        new: its corrected label, or "" to leave the image out.
        who: who corrected it, or "".
        when: time in UTC as ISO 8601 text, or "".
    """

    id: str
    old: str
    new: str
    who: str = ""
    when: str = ""


@dataclass(frozen=True)
class Ruling:
    """What the lines of one image say together.

    Attributes:
        new: the label of its last line, or "" to leave the image out.
        olds: the labels that its lines replace.
    """

    new: str
    olds: frozenset[str]


def labels_file(cache_dir: Path) -> Path:
    """Return where the page keeps the corrections of a cache: NAME.labels.csv, beside it.

    >>> labels_file(Path("data/plants")).as_posix()
    'data/plants.labels.csv'
    """
    return cache_dir.with_name(f"{cache_dir.resolve().name}.labels.csv")


def read_corrections(path: Path) -> tuple[Correction, ...]:
    """Read a CSV or Parquet file of corrections, oldest first.

    Raises:
        LabelError: the file cannot be read, lacks a column, or has a line without an id.
    """
    try:
        table = read_text_table(path, COLUMNS, WHAT, HEADER)
        missing = [name for name in COLUMNS[:3] if name not in table.names]
        if missing:
            raise LabelError(f"{WHAT} needs {HEADER}, but {path} lacks {', '.join(missing)}. Add them.")
        there = [name for name in COLUMNS if name in table.names]
        cells = {name: column_texts(table.rows[name], name, str(path)) for name in there}
    except ValueError as error:
        raise LabelError(str(error)) from error
    blank = [None] * table.rows.num_rows
    lines = zip(*(cells.get(name, blank) for name in COLUMNS), strict=True)
    found = [Correction(*(cell or "" for cell in line)) for line in lines]
    for number, one in enumerate(found, 2):
        if not one.id:
            raise LabelError(
                f"{WHAT} needs an id in every line, but line {number} of {path} has none. Fill it in, or delete the "
                "line."
            )
    return tuple(found)


def add_corrections(path: Path, corrections: Sequence[Correction]) -> None:
    """Add lines to the end of a file of corrections, which is created if necessary; several processes may do so.

    Lines without a time get the present one. The file is replaced atomically, and lines that are there stay as they
    are, even columns that Frostbench does not know.

    Raises:
        LabelError: the file is not a CSV file with the columns of corrections, or a correction has no id.
        OSError: the file cannot be written.
    """
    if path.suffix.lower() != ".csv":
        raise LabelError(f"{WHAT} must be a .csv file to add to it, got {path.name!r}. Name a .csv file.")
    if bad := [one for one in corrections if not one.id]:
        raise LabelError(f"A label correction needs an id, got {bad[0]}. Give it.")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{path.name}.lock")):
        before, names = _as_it_is(path)
        lines = io.StringIO()
        writer = csv.DictWriter(lines, names, restval="", lineterminator="\n")
        if not before:
            writer.writeheader()
        writer.writerows({**one._asdict(), "when": one.when or now} for one in corrections)
        write_bytes(path, before + lines.getvalue().encode())


def _as_it_is(path: Path) -> tuple[bytes, Sequence[str]]:
    """Return the bytes of the file, ending in a line break, and its columns; if there is no file, b"" and ours."""
    if not path.is_file() or not path.stat().st_size:
        return b"", COLUMNS
    read_corrections(path)
    names = read_text_table(path, COLUMNS, WHAT, HEADER).names
    if lacking := [name for name in COLUMNS if name not in names]:
        raise LabelError(f"{WHAT} needs the column {lacking[0]} to add to it, but {path} lacks it. Add it.")
    before = path.read_bytes()
    try:
        before.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LabelError(f"{WHAT} must be UTF-8 to add to it, but {path} is not. Save it as UTF-8.") from error
    return before if before.endswith(b"\n") else before + b"\n", names


def rulings(corrections: Iterable[Correction]) -> Mapping[str, Ruling]:
    """Return what counts for each image: the last of its lines.

    >>> rulings([Correction("1", "oak", "elm"), Correction("1", "oak", "ash")])["1"].new
    'ash'
    """
    found: dict[str, Ruling] = {}
    for one in corrections:
        before = found.get(one.id)
        found[one.id] = Ruling(one.new, frozenset({one.old, *(before.olds if before else ())}))
    return found
