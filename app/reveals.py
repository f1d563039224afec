"""Log of comparisons on test rows: one line in the store per comparison."""

import json
import time
from pathlib import Path

from frostbench.benchmarks.comparison.ab import Pair
from frostbench.benchmarks.runs.store import read_record

FILE = "reveals.jsonl"


def note_reveal(store: Path, pair: Pair) -> int:
    """Log a comparison on test rows; return how often test rows of the split were used, including this time."""
    line = {"time": round(time.time()), "split": _split(store, pair)} | {
        side.name: list(side.keys) for side in pair.sides
    }
    path = store / FILE
    # A line cut short by a full disk or a kill must not merge with the next one.
    gap = b"" if not path.is_file() or path.read_bytes().endswith(b"\n") else b"\n"
    with path.open("ab", buffering=0) as file:
        file.write(gap + json.dumps(line).encode() + b"\n")
    return count_reveals(store, pair)


def count_reveals(store: Path, pair: Pair) -> int:
    """Return how often test rows of the pair's split were used."""
    return count_looks(store, _split(store, pair))


def count_looks(store: Path, split: str) -> int:
    """Return how often test rows of a split, given by its hash, were used."""
    path = store / FILE
    if not path.is_file():
        return 0
    return sum(_split_of(line) == split for line in path.read_bytes().splitlines())


def revealed_keys(store: Path) -> frozenset[str]:
    """Return the keys of the runs whose test rows were used; damaged lines are passed over."""
    path = store / FILE
    found: set[str] = set()
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            tree = json.loads(line)
            found.update(str(key) for side in ("A", "B") for key in tree.get(side, ()))
        except (ValueError, AttributeError, TypeError, RecursionError):
            continue
    return frozenset(found)


def _split_of(line: bytes) -> object:
    """Return the split of a line, or None if the line is damaged."""
    try:
        return json.loads(line)["split"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def _split(store: Path, pair: Pair) -> str:
    return read_record(store, pair.sides[0].keys[0]).data.split
