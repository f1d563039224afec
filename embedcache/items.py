"""Items and listings: what is to be embedded, named and ordered the same on every machine."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

IMAGE_SUFFIXES = frozenset(
    {".avif", ".bmp", ".gif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg"}
    | {".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"}
)
NO_GROUPS = (
    "NO GROUPS: this source does not say which images belong together (same specimen, patient, video, burst), so every "
    "image counts as independent. If near-copies exist, they can fall into both training and test and the results will "
    "look better than they are. Give groups by a 'group' column or a group regex on the file names."
)


@dataclass(frozen=True)
class Item:
    """One image that was asked for.

    Attributes:
        id: unique POSIX path relative to the source, valid UTF-8 (see `escape_name`).
        path: where the file is; None for vectors that came without images.
        label: name of its class.
        group: what must not be divided between training and test; None where unknown.
        split: the part a manifest assigns it to; None where none is given.
    """

    id: str
    path: Path | None
    label: str
    group: str | None = None
    split: str | None = None


@dataclass(frozen=True)
class Listing:
    """All items of a source, sorted by id, and what was noticed while listing.

    Attributes:
        items: sorted by id, ids unique.
        class_names: all classes in order, including those without an image.
        warnings: sentences for a person.
        description: what kind of source this is and how it was read, as JSON.
    """

    items: tuple[Item, ...]
    class_names: tuple[str, ...]
    warnings: tuple[str, ...]
    description: dict[str, Any]


def escape_name(name: str) -> str:
    r"""A file name as valid UTF-8, reversibly: backslashes are doubled, undecodable bytes become \xNN.

    >>> escape_name("caf\udce9.png")
    'caf\\xe9.png'
    """
    doubled = name.replace("\\", "\\\\")
    return "".join(f"\\x{ord(c) - 0xDC00:02x}" if 0xDC80 <= ord(c) <= 0xDCFF else c for c in doubled)


def natural_key(name: str) -> tuple[tuple[tuple[int, int, str], ...], str]:
    """A sort key that compares runs of digits as numbers.

    >>> sorted(["10", "2", "b", "a10", "a9"], key=natural_key)
    ['2', '10', 'a9', 'a10', 'b']
    """
    parts = (part for part in re.split(r"([0-9]+)", name) if part)
    return tuple((0, int(p), "") if p[0] in "0123456789" else (1, 0, p) for p in parts), name


def alike_names(names: Iterable[str]) -> list[str]:
    """A warning, if any class names agree but for case, outer spaces and the Unicode form of their accents.

    >>> [warning.split(": ")[1] for warning in alike_names(["cat", "dog", "Cat "])]
    ["'Cat ' and 'cat'. Rename them if they mean one class."]
    """
    alike: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        alike.setdefault(unicodedata.normalize("NFC", name.strip().casefold()), []).append(name)
    several = [" and ".join(map(ascii, found)) for found in alike.values() if len(found) > 1]
    if not several:
        return []
    shown = ", ".join(several[:5]) + (" …" if len(several) > 5 else "")
    return [
        f"Some class names differ only by case, spaces or the form of accents, and count as separate classes: {shown}. "
        "Rename them if they mean one class."
    ]


def misspelt_headers(names: Sequence[str], known: Sequence[str]) -> str:
    """Headers that stand for a known one in other case or with spaces, with what to do; "" where there are none.

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
) -> Listing:
    """Order and check a listing, and take groups from the ids where a regex is given.

    Raises:
        ValueError: nothing is listed, an id occurs twice, or the regex is invalid or does not match every id.
    """
    ordered = sorted(items, key=lambda item: item.id)
    if not ordered:
        raise ValueError(f"a source must hold at least one image, however: none was found. Source: {description}.")
    _check_unique(ordered)
    if group_regex is not None:
        ordered = _with_groups(ordered, group_regex)
    names = tuple(sorted(class_names, key=natural_key))
    notes = [*warnings, *alike_names(names)]
    if all(item.group is None for item in ordered):
        notes.insert(0, NO_GROUPS)
    elif lacking := sum(item.group is None for item in ordered):
        notes.insert(0, f"{lacking} of {len(ordered)} images have no group; each of them counts as independent.")
    if all(name.isdecimal() for name in names):
        notes.append(
            "The class names are integers. They are sorted as numbers, and the label number of a class is its rank in "
            f"that order, not its name: {', '.join(names[:5])} … become 0 …{len(names) - 1}."
        )
    return Listing(tuple(ordered), names, tuple(notes), description | {"group_regex": group_regex})


def _check_unique(ordered: Sequence[Item]) -> None:
    twice = sorted({a.id for a, b in pairwise(ordered) if a.id == b.id})
    if twice:
        raise ValueError(
            f"each image may be listed once, however: {len(twice)} ids occur more than once, for example "
            f"{', '.join(map(repr, twice[:3]))}. Remove the repeated rows."
        )


def _with_groups(ordered: Sequence[Item], group_regex: str) -> list[Item]:
    if any(item.group is not None for item in ordered):
        raise ValueError(
            "groups must come from one place, however: a group regex is given and the manifest has a group column. "
            "Drop one of them."
        )
    try:
        pattern = re.compile(group_regex)
    except re.error as error:
        raise ValueError(
            f"the group regex must be valid, however: {group_regex!r} is not ({error}). Write a Python "
            r"regular expression, for example ([^/]+)_[0-9]+\.png$ for the part of a file name before its number."
        ) from error
    matches = [(item, pattern.search(item.id)) for item in ordered]
    missing = [item.id for item, match in matches if _group_of(match) is None]
    if missing:
        raise ValueError(
            f"the group regex must give every image a group, however: {group_regex!r} finds none in {len(missing)} of "
            f"{len(ordered)} paths, for example {', '.join(map(repr, missing[:3]))}. Widen the regex."
        )
    return [replace(item, group=_group_of(match)) for item, match in matches]


def _group_of(match: re.Match[str] | None) -> str | None:
    """The first capture group, or the whole match where the regex has none; None where that is empty."""
    if match is None:
        return None
    return (match[1] if match.re.groups else match[0]) or None
