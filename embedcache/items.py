"""Items and listings: the images to embed, with the same names and order on every machine."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from frostbench.embedcache.counting import things
from frostbench.embedcache.names import alike_names, check_names
from frostbench.embedcache.sources.id_parts import parts_of
from frostbench.embedcache.sources.times import as_time, check_alike

IMAGE_SUFFIXES = frozenset(
    {".avif", ".bmp", ".gif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg"}
    | {".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"}
)
NO_GROUPS = (
    "NO GROUPS: this source does not say which images belong together (same specimen, patient, video, burst), so every "
    "image counts as independent. Near-duplicates can then be in both training and test, and results will look better "
    "than they are. State groups in a 'group' column, or by a regex on the file names (--group-regex)."
)


@dataclass(frozen=True)
class Item:
    """One listed image.

    Attributes:
        id: unique POSIX path relative to the source, valid UTF-8 (see `escape_name`).
        path: path of the file; None for vectors imported without images.
        label: name of its class, or "" if it has no label.
        group: images that must not be divided between training and test; None if unknown.
        split: split stated by the source; None if there is none.
        time: capture time as ISO 8601 text (see `frostbench.embedcache.sources.times`); None if unknown.
        member: its row in the file at `path`, if that file contains many images; None if the file is the image.
        column: image column of that file.
    """

    id: str
    path: Path | None
    label: str
    group: str | None = None
    split: str | None = None
    time: str | None = None
    member: int | None = None
    column: str | None = None


@dataclass(frozen=True)
class Listing:
    """All items of a source, with warnings.

    Attributes:
        items: items sorted by id; ids are unique.
        class_names: all classes in order, including those without an image.
        warnings: sentences for the user.
        description: kind of source and how it was read, as JSON.
    """

    items: tuple[Item, ...]
    class_names: tuple[str, ...]
    warnings: tuple[str, ...]
    description: dict[str, Any]


def escape_name(name: str) -> str:
    r"""Escape a file name as valid UTF-8, reversibly: backslashes are doubled, undecodable bytes become \xNN.

    >>> escape_name("caf\udce9.png")
    'caf\\xe9.png'
    """
    doubled = name.replace("\\", "\\\\")
    return "".join(f"\\x{ord(c) - 0xDC00:02x}" if 0xDC80 <= ord(c) <= 0xDCFF else c for c in doubled)


def natural_key(name: str) -> tuple[tuple[tuple[int, int, str], ...], str]:
    """Return a sort key that compares runs of digits as numbers.

    >>> sorted(["10", "2", "b", "a10", "a9"], key=natural_key)
    ['2', '10', 'a9', 'a10', 'b']
    """
    parts = (part for part in re.split(r"([0-9]+)", name) if part)
    return tuple((0, int(p), "") if p[0] in "0123456789" else (1, 0, p) for p in parts), name


def misspelt_headers(names: Sequence[str], known: Sequence[str]) -> str:
    """Describe headers that differ from known ones only by case or spaces, with advice; "" if there are none.

    >>> misspelt_headers(["path", " Label"], ["path", "label", "group"])
    "' Label' for 'label'. Rename it"
    """
    near = {name: name.strip().casefold() for name in names if name not in known}
    pairs = [f"{name!r} for {meant!r}" for name, meant in near.items() if meant in known and meant not in names]
    return f"{', '.join(pairs)}. Rename {'it' if len(pairs) == 1 else 'them'}" if pairs else ""


def make_listing(
    items: Iterable[Item],
    class_names: Iterable[str],
    warnings: Sequence[str],
    description: dict[str, Any],
    group_regex: str | None,
    time_regex: str | None = None,
) -> Listing:
    """Sort and check a listing, and extract groups and times from ids by regex.

    Raises:
        ValueError: nothing is listed, an id occurs twice, a regex is invalid, does not match every id or competes with
            a column, a time is not ISO 8601, only some times have a UTC offset, or a class name is blank.
    """
    ordered = sorted(items, key=lambda item: item.id)
    if not ordered:
        details = "".join(f" {warning}" for warning in warnings)
        raise ValueError(
            f"A source must contain at least one image, but none was found. Source: {description}.{details}"
        )
    _check_unique(ordered)
    if group_regex is not None:
        ordered = _with_groups(ordered, group_regex)
    if time_regex is not None:
        ordered = _with_times(ordered, time_regex)
    check_alike([item.time for item in ordered if item.time is not None])
    names = tuple(sorted(class_names, key=natural_key))
    notes = [*group_notes([item.group for item in ordered]), *warnings, *check_names(names, "the source")]
    if all(name.isdecimal() for name in names):
        notes.append(
            "The class names are integers. They are sorted as numbers, and the label index of a class is its rank in "
            f"that order, from 0 to {len(names) - 1}, not its name."
        )
    # Omitted if None, so that caches begun before times existed can still be resumed.
    times = {} if time_regex is None else {"time_regex": time_regex}
    return Listing(tuple(ordered), names, tuple(notes), description | {"group_regex": group_regex} | times)


def group_notes(groups: Sequence[str | None]) -> list[str]:
    """Return notes about the groups [N] of a listing, None for rows without one.

    >>> group_notes(["a", None])
    ['1 of 2 images has no group and counts as independent.']
    """
    lacking = sum(group is None for group in groups)
    if lacking == len(groups):
        return [NO_GROUPS]
    words = "has no group and counts" if lacking == 1 else "have no group; each of them counts"
    notes = [f"{lacking} of {len(groups)} images {words} as independent."] if lacking else []
    return notes + alike_names((group for group in groups if group is not None), "groups", "groups")


def _check_unique(ordered: Sequence[Item]) -> None:
    twice = sorted({a.id for a, b in pairwise(ordered) if a.id == b.id})
    if twice:
        raise ValueError(
            f"Each image may be listed only once, but {things(len(twice), 'id occurs', 'ids occur')} more than once, "
            f"for example {', '.join(map(repr, twice[:3]))}. Remove the repeated rows."
        )


def _with_groups(ordered: Sequence[Item], regex: str) -> list[Item]:
    _check_one_place(any(item.group is not None for item in ordered), "group")
    parts = parts_of([item.id for item in ordered], regex, "group")
    return [replace(item, group=part) for item, part in zip(ordered, parts, strict=True)]


def _with_times(ordered: Sequence[Item], regex: str) -> list[Item]:
    _check_one_place(any(item.time is not None for item in ordered), "time")
    parts = parts_of([item.id for item in ordered], regex, "time")
    times = [as_time(part) for part in parts]
    wrong = [(item.id, part) for item, part, time in zip(ordered, parts, times, strict=True) if time is None]
    if wrong:
        raise ValueError(
            "The time regex must match ISO 8601 dates such as 2024-01-31 or 20240131, optionally with T10:20:30, but "
            f"in {things(len(wrong), 'id', 'ids')} '{regex}' finds something else, for example {wrong[0][1]!r} in "
            f"{wrong[0][0]!r}. Change the regex, or state times in a manifest."
        )
    return [replace(item, time=time) for item, time in zip(ordered, times, strict=True)]


def _check_one_place(has_some: bool, what: str) -> None:
    if has_some:
        raise ValueError(
            f"{what.capitalize()}s must come from one source, but both a {what} regex and a {what} column were given. "
            "Leave one of them out."
        )
