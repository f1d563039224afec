"""Choices kept in a run store: STORE/choices/KEY.json."""

import json
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from frostbench.benchmarks.auto.result import Choice
from frostbench.embedcache.storage.files import write_json

_CHOICE: TypeAdapter[Choice] = TypeAdapter(Choice)


def read_choice(path: Path) -> Choice | None:
    """Return the choice of a file, or None if there is no file or it is damaged, in which case it is made again."""
    try:
        return _CHOICE.validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def write_choice(path: Path, choice: Choice) -> None:
    """Write a choice; another process that makes the same choice writes the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, json.loads(_CHOICE.dump_json(choice)))
