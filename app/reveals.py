"""How often the test rows were looked at: one line in the store for each time."""

import json
import time
from pathlib import Path

from frostbench.benchmarks.comparison.ab import Pair
from frostbench.benchmarks.runs.store import read_record


def note_reveal(store: Path, pair: Pair) -> int:
    """Write down that a pair was compared on test rows; returns how often those of this split were, now included."""
    line = {"time": round(time.time()), "split": _split(store, pair)} | {
        side.name: list(side.keys) for side in pair.sides
    }
    path = _path(store)
    # A line that a full disk or a kill cut short must not swallow the next one.
    gap = b"" if not path.is_file() or path.read_bytes().endswith(b"\n") else b"\n"
    with path.open("ab", buffering=0) as file:
        file.write(gap + json.dumps(line).encode() + b"\n")
    return count_reveals(store, pair)


def count_reveals(store: Path, pair: Pair) -> int:
    """How often test rows of the pair's split were revealed."""
    path = _path(store)
    if not path.is_file():
        return 0
    split = _split(store, pair)
    return sum(_split_of(line) == split for line in path.read_bytes().splitlines())


def _split_of(line: bytes) -> object:
    """The split that a line names; None of one that was cut short."""
    try:
        return json.loads(line)["split"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def _path(store: Path) -> Path:
    return store / "reveals.jsonl"


def _split(store: Path, pair: Pair) -> str:
    return read_record(store, pair.sides[0].keys[0]).data.split
