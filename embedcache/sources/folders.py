"""Image folders: the first folder level below the root names the class."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from embedcache.items import IMAGE_SUFFIXES, Item, Listing, escape_name, make_listing

FileKey = tuple[int, int]


@dataclass
class _Notes:
    """What a walk leaves out, to be reported once at the end."""

    hidden: list[str] = field(default_factory=list)
    dangling: list[str] = field(default_factory=list)
    loops: list[str] = field(default_factory=list)
    special: list[str] = field(default_factory=list)
    in_root: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    suffixes: Counter[str] = field(default_factory=Counter)

    def sentences(self) -> list[str]:
        """One warning for each kind of thing that was left out."""
        kinds = {
            "hidden files or folders were skipped": self.hidden,
            "links that lead nowhere were skipped": self.dangling,
            "links that lead back into a folder above them were not followed": self.loops,
            "entries that are neither files nor folders were skipped": self.special,
            "images lie directly in the root, belong to no class and were skipped": self.in_root,
            "class folders hold no image; they stay in the class list": self.empty,
        }
        told = [f"{len(names)} {what}: {_examples(names)}." for what, names in kinds.items() if names]
        if self.suffixes:
            counts = ", ".join(f"{count} × {suffix}" for suffix, count in sorted(self.suffixes.items()))
            told.append(f"{self.suffixes.total()} files without an image's extension were skipped: {counts}.")
        return told


def list_folder(root: Path, *, group_regex: str | None = None, time_regex: str | None = None) -> Listing:
    """List the images below a folder of class folders.

    Folders inside a class folder belong to that class. Links are followed, except those that lead nowhere or back
    into a folder above them. Hidden files and folders (a leading dot) are skipped. What was left out is in `warnings`.

    Args:
        root: folder that holds one folder for each class.
        group_regex: searched in each id; its first capture group, or else the whole match, is the image's group.
        time_regex: the same for the image's time.

    Raises:
        ValueError: there is no such folder, it has no class folders or no images, or the regex misses an image.
        OSError: a folder below the root cannot be read.
    """
    if not root.is_dir():
        raise ValueError(f"an image source must be a folder, however: {root} is none. Is the path right?")
    root = root.absolute()
    notes = _Notes()
    classes = _class_folders(root, notes)
    items: list[Item] = []
    for name, path in classes:
        found = [_item(name, file, root) for file in _walk(path, root, (_key(root), _key(path)), notes)]
        if not found:
            notes.empty.append(escape_name(name))
        items += found
    description = {"kind": "folder", "root": escape_name(os.fspath(root))}
    names = [escape_name(name) for name, _ in classes]
    return make_listing(items, names, notes.sentences(), description, group_regex, time_regex)


def _class_folders(root: Path, notes: _Notes) -> list[tuple[str, Path]]:
    classes = []
    for entry in _entries(root, root, notes):
        if _followed(entry).is_dir():
            classes.append((entry.name, Path(entry.path)))
        elif _is_image(entry.name):
            notes.in_root.append(escape_name(entry.name))
        else:
            notes.suffixes[_suffix(entry.name)] += 1
    if not classes:
        raise ValueError(
            f"the folders directly below {root} must name the classes, however: there are none "
            f"({len(notes.in_root)} images lie flat in it). Sort them into class folders, or give a manifest with the "
            "columns path and label."
        )
    return classes


def _walk(folder: Path, root: Path, above: tuple[FileKey, ...], notes: _Notes) -> Iterator[Path]:
    """The image files below a folder; `above` holds the folders on the way, by which loops of links are found."""
    for entry in _entries(folder, root, notes):
        if _followed(entry).is_dir():
            key = _key(Path(entry.path))
            if key in above:
                notes.loops.append(_relative(Path(entry.path), root))
            else:
                yield from _walk(Path(entry.path), root, (*above, key), notes)
        elif _is_image(entry.name):
            yield Path(entry.path)
        else:
            notes.suffixes[_suffix(entry.name)] += 1


def _entries(folder: Path, root: Path, notes: _Notes) -> Iterator[os.DirEntry[str]]:
    """The visible files and folders of a folder in the order of their names, whatever the file system's order is."""
    with os.scandir(folder) as scan:
        entries = sorted(scan, key=lambda entry: entry.name)
    for entry in entries:
        relative = _relative(Path(entry.path), root)
        if entry.name.startswith("."):
            notes.hidden.append(relative)
        elif _followed(entry).is_dir() or _followed(entry).is_file():
            yield entry
        elif entry.is_symlink():
            notes.dangling.append(relative)
        else:
            notes.special.append(relative)


def _followed(entry: os.DirEntry[str]) -> os.DirEntry[str] | Path:
    """The entry, or its path where it is a link, since `os.DirEntry.is_dir` raises for a link to itself."""
    return Path(entry.path) if entry.is_symlink() else entry


def _item(class_name: str, path: Path, root: Path) -> Item:
    return Item(id=_relative(path, root), path=path, label=escape_name(class_name))


def _relative(path: Path, root: Path) -> str:
    return escape_name(path.relative_to(root).as_posix())


def _is_image(name: str) -> bool:
    return _suffix(name) in IMAGE_SUFFIXES


def _suffix(name: str) -> str:
    return escape_name(Path(name).suffix.lower()) or "(none)"


def _key(path: Path) -> FileKey:
    status = path.stat()
    return status.st_dev, status.st_ino


def _examples(names: list[str]) -> str:
    return ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
