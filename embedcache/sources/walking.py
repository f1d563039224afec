"""Image files in folders: what is found, in one order on every machine, and what is left out, with its reason."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from frostbench.embedcache.items import IMAGE_SUFFIXES, escape_name

FileKey = tuple[int, int]

LEFTOVERS = frozenset(
    {"__macosx", "system volume information", "$recycle.bin", "recycler", "lost+found", "__pycache__"}
    | {"@eadir", "@recycle", "@tmp", "#recycle", "#snapshot"}
    | {"thumbs.db", "ehthumbs.db", "ehthumbs_vista.db", "desktop.ini", "icon\r"}
)
"""Files and folders that operating systems, archives and network drives leave behind, in lower case."""
UNREAD_SUFFIXES = frozenset(
    {".heic", ".heif", ".hif", ".jxl", ".psd", ".svg", ".eps", ".ai", ".pdf", ".ico", ".tga", ".exr", ".hdr"}
    | {".dng", ".raw", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2", ".raf", ".pef", ".srw"}
    | {".dcm", ".nii", ".fits", ".fit", ".czi", ".nd2", ".lif", ".svs", ".ndpi", ".mrxs", ".vsi"}
    | {".mp4", ".mov", ".avi", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg"}
)
"""Pictures and films in formats that are not read here."""


@dataclass
class LeftOut:
    """What a walk leaves out, to be reported once at the end."""

    hidden: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    dangling: list[str] = field(default_factory=list)
    loops: list[str] = field(default_factory=list)
    special: list[str] = field(default_factory=list)
    suffixes: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)

    def sentences(self) -> list[str]:
        """One warning for each kind of thing that was left out."""
        kinds = (
            (self.hidden, "hidden file or folder was skipped", "hidden files or folders were skipped"),
            (
                self.leftovers,
                "file or folder that systems leave behind was skipped",
                "files or folders that systems leave behind were skipped",
            ),
            (self.dangling, "link that leads nowhere was skipped", "links that lead nowhere were skipped"),
            (
                self.loops,
                "link that leads back into a folder above it was not followed",
                "links that lead back into a folder above them were not followed",
            ),
            (
                self.special,
                "entry that is neither a file nor a folder was skipped",
                "entries that are neither files nor folders were skipped",
            ),
        )
        told = [counted(names, one, many) for names, one, many in kinds if names]
        if self.unread:
            files = things(
                self.unread.total(),
                "file is of a format that is not read here and was skipped",
                "files are of formats that are not read here and were skipped",
            )
            told.append(f"{files}: {_counts(self.unread)}. Convert to PNG, JPEG or TIFF.")
        if self.suffixes:
            files = things(
                self.suffixes.total(),
                "file without an image's extension was skipped",
                "files without an image's extension were skipped",
            )
            told.append(f"{files}: {_counts(self.suffixes)}.")
        return told

    def add_file(self, name: str) -> None:
        """Count a file that is no image that is read here."""
        suffix = _suffix(name)
        (self.unread if suffix in UNREAD_SUFFIXES else self.suffixes)[suffix] += 1


def find_images(folder: Path) -> tuple[list[Path], list[str]]:
    """The image files in a folder and below, sorted, and what was left out, in sentences for a person.

    Links are followed, except those that lead nowhere or back into a folder above them.

    Raises:
        ValueError: there is no image.
        OSError: a folder below cannot be read.
    """
    left = LeftOut()
    found = sorted(walk(folder, folder, (file_key(folder),), left))
    if not found:
        told = "".join(f" {sentence}" for sentence in left.sentences())
        raise ValueError(
            f"a folder must hold images, also in folders below it, however: {folder} holds none. Is the path right?"
            f"{told}"
        )
    return found, left.sentences()


def walk(folder: Path, root: Path, above: tuple[FileKey, ...], left: LeftOut) -> Iterator[Path]:
    """The image files below a folder; `above` holds the folders on the way, by which loops of links are found."""
    for entry in entries(folder, root, left):
        if followed(entry).is_dir():
            key = file_key(Path(entry.path))
            if key in above:
                left.loops.append(relative_name(Path(entry.path), root))
            else:
                yield from walk(Path(entry.path), root, (*above, key), left)
        elif is_image(entry.name):
            yield Path(entry.path)
        else:
            left.add_file(entry.name)


def entries(folder: Path, root: Path, left: LeftOut) -> Iterator[os.DirEntry[str]]:
    """The visible files and folders of a folder in the order of their names, whatever the file system's order is."""
    with os.scandir(folder) as scan:
        found = sorted(scan, key=lambda entry: entry.name)
    for entry in found:
        name = relative_name(Path(entry.path), root)
        if entry.name.lower() in LEFTOVERS:
            left.leftovers.append(name)
        elif entry.name.startswith("."):
            left.hidden.append(name)
        elif followed(entry).is_dir() or followed(entry).is_file():
            yield entry
        elif entry.is_symlink():
            left.dangling.append(name)
        else:
            left.special.append(name)


def followed(entry: os.DirEntry[str]) -> os.DirEntry[str] | Path:
    """The entry, or its path where it is a link, since `os.DirEntry.is_dir` raises for a link to itself."""
    return Path(entry.path) if entry.is_symlink() else entry


def relative_name(path: Path, root: Path) -> str:
    """The escaped POSIX path of a file from a folder above it."""
    return escape_name(path.relative_to(root).as_posix())


def is_image(name: str) -> bool:
    """Whether a file has the extension of a format that is read here."""
    return _suffix(name) in IMAGE_SUFFIXES


def file_key(path: Path) -> FileKey:
    """What tells a folder from all others, by whatever way it is reached."""
    status = path.stat()
    return status.st_dev, status.st_ino


def counted(names: list[str], one: str, many: str) -> str:
    """A sentence with how many there are and the first three.

    >>> counted(["a"], "link was skipped", "links were skipped")
    '1 link was skipped: a.'
    """
    return f"{things(len(names), one, many)}: {', '.join(names[:3])}{' …' if len(names) > 3 else ''}."


def things(number: int, one: str, many: str) -> str:
    """A number with the words for one or for several."""
    return f"{number} {one if number == 1 else many}"


def _suffix(name: str) -> str:
    return escape_name(Path(name).suffix.lower()) or "(none)"


def _counts(suffixes: Counter[str]) -> str:
    return ", ".join(f"{count} × {suffix}" for suffix, count in sorted(suffixes.items()))
