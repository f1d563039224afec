"""How often the test rows were looked at: one line in the store for each time."""

import json
import time
from pathlib import Path

from benchmarks.ab import Pair
from benchmarks.store import read_record


def note_reveal(store: Path, pair: Pair) -> int:
    """Write down that a pair was compared on test rows; returns how often those of this split were, now included."""
    line = {"time": round(time.time()), "split": _split(store, pair)} | {
        side.name: list(side.keys) for side in pair.sides
    }
    with _path(store).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    return count_reveals(store, pair)


def count_reveals(store: Path, pair: Pair) -> int:
    """How often test rows of the pair's split were revealed."""
    path = _path(store)
    if not path.is_file():
        return 0
    split = _split(store, pair)
    return sum(
        json.loads(line)["split"] == split for line in path.read_text("utf-8").splitlines() if line.endswith("}")
    )


def _path(store: Path) -> Path:
    return store / "reveals.jsonl"


def _split(store: Path, pair: Pair) -> str:
    return read_record(store, pair.sides[0].keys[0]).data.split
