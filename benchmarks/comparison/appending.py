"""Adds the runs of a comparison to a CSV file of metrics, which may come from elsewhere."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from frostbench.benchmarks.comparison.compare import Comparison
from frostbench.benchmarks.comparison.metrics import HIGHER_IS_BETTER
from frostbench.benchmarks.runs.record import RunRecord
from frostbench.benchmarks.runs.store import read_record
from frostbench.embedcache.outputs.places import OutputError, check_file
from frostbench.embedcache.outputs.spreadsheets import as_cell
from frostbench.embedcache.outputs.writing import write_text
from frostbench.embedcache.plain_text import read_text

PROFILE = "full"
"""Row that differences refer to if the comparison has it; otherwise they refer to the baseline."""
Line = dict[str, str]


@dataclass(frozen=True)
class Appended:
    """Number of runs that were added to a file, and of those whose values in it were replaced."""

    added: int
    replaced: int


def append_runs(store: Path, comparison: Comparison, path: Path) -> Appended:
    """Add one line per run to a CSV file, by column name; a run that is in the file is replaced.

    The columns are key, row, seed, comparison, cache, split, role, reference, the metrics, and their differences from
    the run of the reference row with the same seed (`delta_` and the metric's name). The reference is the row `full`,
    or the baseline without such a row. Columns that the file lacks are added on the right; its other columns stay as
    they are and are empty in new lines. The file is created if it does not exist.

    Raises:
        OutputError: the file is not a .csv file, is not readable, has a column twice, or holds lines of another split
            or role.
        StoreError: a run is not in the store.
    """
    check_file(path, (".csv",), "a file of metrics", makes_folder=True)
    reference = PROFILE if PROFILE in comparison.rows else comparison.baseline
    records = {row: [read_record(store, key) for key in keys] for row, keys in comparison.rows.items()}
    new = [line for row in records for line in _lines(comparison, row, records[row], reference, records[reference])]
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{path.name}.lock")):
        header, lines = _read(path)
        _check_same(lines, new[0], path)
        place = {(line.get("key"), line.get("role")): number for number, line in enumerate(lines)}
        added = 0
        for line in new:
            number = place.get((line["key"], line["role"]))
            if number is None:
                lines.append(line)
                added += 1
            else:
                lines[number] |= line
        header += [name for name in new[0] if name not in header]
        write_text(path, _as_csv(header, lines))
    return Appended(added, len(new) - added)


def _lines(
    comparison: Comparison, row: str, records: Sequence[RunRecord], reference: str, others: Sequence[RunRecord]
) -> Iterator[Line]:
    for record, other in zip(records, others, strict=True):
        mine, theirs = (one.evaluations[comparison.role].metrics for one in (record, other))
        role = "test" if comparison.role == "test" else "validation"
        line = {"key": record.key, "row": as_cell(row), "seed": str(record.seed)}
        line |= {"comparison": as_cell(comparison.title), "cache": as_cell(record.data.cache)}
        line |= {"split": record.data.split, "role": role, "reference": as_cell(reference)}
        line |= {name: _number(mine.get(name)) for name in HIGHER_IS_BETTER}
        yield line | {f"delta_{name}": _difference(mine, theirs, name) for name in HIGHER_IS_BETTER}


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"


def _difference(mine: Mapping[str, float | None], theirs: Mapping[str, float | None], name: str) -> str:
    one, other = mine.get(name), theirs.get(name)
    return "" if one is None or other is None else f"{one - other:+.6f}"


def _read(path: Path) -> tuple[list[str], list[Line]]:
    """Return the column names and the lines of a CSV file as texts; none if the file does not exist or is empty."""
    if not path.is_file():
        return [], []
    try:
        rows = list(csv.reader(io.StringIO(read_text(path, "a file of metrics"), newline=""), strict=True))
    except (csv.Error, ValueError) as error:
        raise OutputError(f"A file of metrics must be readable CSV, but {path} is not: {error}. Correct it.") from error
    if not rows:
        return [], []
    header, *cells = rows
    twice = sorted({name for name in header if header.count(name) > 1})
    uneven = [number for number, line in enumerate(cells, start=2) if len(line) != len(header)]
    if twice or uneven:
        problem = f"has {', '.join(twice)} twice" if twice else f"line {uneven[0]} has another number of cells"
        raise OutputError(
            f"A file of metrics must have each column once and the same number of cells in every line, but in {path} "
            f"{problem}. Correct it, or append to a new file."
        )
    return header, [dict(zip(header, line, strict=True)) for line in cells]


def _check_same(lines: Sequence[Line], new: Line, path: Path) -> None:
    """Refuse a file with lines of another split or role, whose metrics cannot be compared with the new ones."""
    for name in ("split", "role"):
        others = sorted({line[name] for line in lines if line.get(name)} - {new[name]})
        if others:
            raise OutputError(
                f"All lines of a file of metrics must have the same {name}, since others are computed on other images, "
                f"but {path} has {name} {others[0][:16]} and these runs have {new[name][:16]}. Append to another file."
            )


def _as_csv(header: Sequence[str], lines: Sequence[Line]) -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, header, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()
