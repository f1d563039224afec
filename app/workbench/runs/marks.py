"""Names, tags, stars, notes and pins that people give to settings, in one file beside the run records.

STORE/names.json             what people gave, by setting; written atomically
STORE/.names.json.lock       held while the file is changed, so that several people can use one store
STORE/names.json.damaged-…   a file that could not be read, set aside before a new one is written
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from filelock import FileLock, Timeout
from pydantic import ConfigDict, TypeAdapter, ValidationError

from frostbench.embedcache.outputs.writing import write_json
from frostbench.embedcache.storage.own import is_plain

FILE, FORMAT = "names.json", 1
PATIENCE_SECONDS = 10.0
SIDES = ("a", "b")


class MarkError(ValueError):
    """Names, tags or notes that cannot be kept."""


@dataclass(frozen=True)
class Mark:
    """What people gave to a setting.

    Attributes:
        name: its name, or "" for the one made of its options.
        tags: words to find it by.
        star: whether it has a star.
        note: text about it.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: str = ""
    tags: tuple[str, ...] = ()
    star: bool = False
    note: str = ""


@dataclass(frozen=True)
class Marks:
    """The content of the file.

    Attributes:
        format: version of the file.
        settings: mark by entry, the hash of a setting without its store.
        pins: entries pinned as side "a" or "b", by hash of the data.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    format: Literal[1] = 1
    settings: dict[str, Mark] = field(default_factory=dict)
    pins: dict[str, dict[Literal["a", "b"], str]] = field(default_factory=dict)

    def of(self, entry: str) -> Mark:
        """Return the mark of a setting."""
        return self.settings.get(entry, Mark())


_MARKS = TypeAdapter(Marks)


class Found(NamedTuple):
    """What reading the file gave.

    Attributes:
        marks: its content, or no marks if it cannot be read.
        problem: why it cannot be read and what will happen to it, or "".
        is_newer: whether a newer version wrote it.
    """

    marks: Marks
    problem: str
    is_newer: bool = False


def read_marks(store: Path) -> Found:
    """Read the names of a store; a missing file has none, and a damaged one is described."""
    path = store / FILE
    try:
        if not path.exists() and not path.is_symlink():
            return Found(Marks(), "")
        if not is_plain(path):
            return Found(Marks(), f"{path} must be a regular file, and is not. {_consequence(path)}")
        content = path.read_bytes()
    except OSError as error:
        return Found(Marks(), f"{path} cannot be read ({error.strerror}). Change its permissions to see the names.")
    try:
        return Found(_MARKS.validate_json(content), "")
    except ValidationError as error:
        if (version := _version(content)) > FORMAT:
            problem = f"{path} has format {version}, and this version of Frostbench reads {FORMAT}. Update Frostbench."
            return Found(Marks(), problem, is_newer=True)
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        return Found(
            Marks(), f"{path} is damaged ({where + ': ' if where else ''}{first['msg']}). {_consequence(path)}"
        )


def _consequence(path: Path) -> str:
    return (
        f"Restore it to see the names; the next change sets it aside as {path.name}.damaged-TIME and begins a new one."
    )


def _version(content: bytes) -> int:
    try:
        version = json.loads(content)["format"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return 0
    return version if type(version) is int else 0


def change_marks(store: Path, change: Callable[[Marks], Marks]) -> tuple[Marks, str]:
    """Change the file of a store under its lock; return the new content, and what was set aside, or "".

    `change` gets the content as it is at that moment, so changes by others since the page was loaded are kept.

    Raises:
        MarkError: a newer version wrote the file, another process holds the lock, or the file cannot be written.
    """
    path = store / FILE
    try:
        with FileLock(store / f".{FILE}.lock", timeout=PATIENCE_SECONDS):
            found = read_marks(store)
            if found.is_newer:
                raise MarkError(found.problem)
            after = change(found.marks)
            aside = _set_aside(path) if found.problem else ""
            kept = {entry: mark for entry, mark in after.settings.items() if mark != Mark()}
            pins = {data: sides for data, sides in after.pins.items() if sides}
            after = replace(after, settings=kept, pins=pins)
            write_json(path, asdict(after))
            return after, aside
    except Timeout as error:
        raise MarkError(f"Another process has been changing {path} for {PATIENCE_SECONDS:g} s. Try again.") from error
    except OSError as error:
        raise MarkError(
            f"Names, tags and notes are kept in {path}, which cannot be written ({error.strerror}). Change the "
            "permissions of its folder, or copy the store to a folder of your own."
        ) from error


def _set_aside(path: Path) -> str:
    """Rename a file that cannot be read, and say so."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
    aside = path.rename(path.with_name(f"{path.name}.damaged-{stamp}"))
    return f"{path} could not be read. It was set aside as {aside.name}, and a new file was begun."


def with_pin(marks: Marks, data: str, side: str, entry: str) -> Marks:
    """Return marks with a setting pinned as a side, or with none if the entry is ""; it leaves the other side."""
    sides = {name: one for name, one in marks.pins.get(data, {}).items() if name != side and one != entry}
    return replace(marks, pins=dict(marks.pins) | {data: sides | ({side: entry} if entry else {})})  # type: ignore[arg-type]


def as_tree(mark: Mark) -> Mapping[str, Any]:
    """Return a mark as JSON values; `given` is the name."""
    return {"given": mark.name, "tags": list(mark.tags), "star": mark.star, "note": mark.note}
