"""Names of files that come from a browser or a zip file: which are kept, and which are unsafe."""

import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from frostbench.app.workbench.photos.sources import MANIFESTS
from frostbench.embedcache.items import IMAGE_SUFFIXES, escape_name

MOST_DEPTH = 8
MOST_NAME_BYTES = 200


class PhotoError(ValueError):
    """A file is not kept: its name is unsafe, or it is too much."""


def wanted_parts(name: str) -> list[str] | None:
    r"""Return the folders and the file name of an image or manifest, or None if it is to be skipped.

    >>> wanted_parts("cats\\tom.JPG"), wanted_parts("__MACOSX/tom.jpg"), wanted_parts("notes.txt")
    (['cats', 'tom.JPG'], None, None)

    Raises:
        PhotoError: the name leads out of its folder, or is not printable, too deep or too long.
    """
    parts = re.split(r"[/\\]", name)
    unsafe = any(part in ("", ".", "..") or not part.isprintable() for part in parts)
    if unsafe or len(parts) > MOST_DEPTH or any(len(os.fsencode(part)) > MOST_NAME_BYTES for part in parts):
        raise PhotoError(
            f"A file's path must have 1 to {MOST_DEPTH} printable names of at most {MOST_NAME_BYTES} bytes and stay in "
            f"its folder, got {escape_name(name[:MOST_NAME_BYTES])!r}. Rename it."
        )
    hidden = any(part.startswith(".") or part.lower() == "__macosx" for part in parts)
    is_wanted = PurePosixPath(parts[-1]).suffix.lower() in IMAGE_SUFFIXES or parts[-1] in MANIFESTS
    return parts if is_wanted and not hidden else None


def unwrapped(paths: list[list[str]]) -> list[list[str]]:
    """Take away the folder that all files are in, as long as those that are left are in folders too.

    >>> unwrapped([["set", "cats", "1.jpg"], ["set", "dogs", "1.jpg"]])
    [['cats', '1.jpg'], ['dogs', '1.jpg']]
    """
    while paths and all(len(parts) > 2 and parts[0] == paths[0][0] for parts in paths):
        paths = [parts[1:] for parts in paths]
    return paths


def describe_skipped(names: Iterable[str]) -> list[str]:
    """Return a sentence about files that were skipped, by ending; none if there are none.

    >>> describe_skipped(["a.HEIC", "b.heic", "README"])
    ['Files that are no readable images were skipped: 2 .heic, 1 without an ending.']
    """
    kinds = Counter(PurePosixPath(name).suffix.lower() or "without an ending" for name in names)
    told = ", ".join(f"{number:,} {escape_name(kind)}" for kind, number in kinds.most_common(5))
    return [f"Files that are no readable images were skipped: {told}."] if kinds else []


def free_name(wanted: str, folder: Path) -> str:
    """Return a name like the wanted one that can be a cache's and that a folder does not have yet.

    >>> free_name("my photos/é", Path("/nowhere"))
    'my-photos'
    """
    base = re.sub(r"[^A-Za-z0-9_.-]+", "-", wanted).strip("-._")[:60] or "photos"
    number, name = 1, base
    while os.path.lexists(folder / name):
        number += 1
        name = f"{base}-{number}"
    return name
