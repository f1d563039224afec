"""Finding image files in folders, in the same order on every machine, and recording what is skipped and why."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from frostbench.embedcache.counting import counted, things
from frostbench.embedcache.items import IMAGE_SUFFIXES, escape_name

FileKey = tuple[int, int]

LEFTOVERS = frozenset(
    {"__macosx", "system volume information", "$recycle.bin", "recycler", "lost+found", "__pycache__"}
    | {"@eadir", "@recycle", "@tmp", "#recycle", "#snapshot"}
    | {"thumbs.db", "ehthumbs.db", "ehthumbs_vista.db", "desktop.ini", "icon\r"}
)
"""Files and folders created by operating systems, archives and network drives, in lower case."""
UNREAD_SUFFIXES = frozenset(
    {".heic", ".heif", ".hif", ".jxl", ".psd", ".svg", ".eps", ".ai", ".pdf", ".ico", ".tga", ".exr", ".hdr"}
    | {".dng", ".raw", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2", ".raf", ".pef", ".srw"}
    | {".dcm", ".nii", ".fits", ".fit", ".czi", ".nd2", ".lif", ".svs", ".ndpi", ".mrxs", ".vsi"}
    | {".mp4", ".mov", ".avi", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg"}
)
"""Extensions of unsupported image and video formats."""


@dataclass
class LeftOut:
    """Skipped files and folders, reported once at the end."""

    hidden: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    dangling: list[str] = field(default_factory=list)
    loops: list[str] = field(default_factory=list)
    special: list[str] = field(default_factory=list)
    suffixes: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)

    def sentences(self) -> list[str]:
        """Return one warning per kind of skipped file."""
        kinds = (
            (self.hidden, "hidden file or folder was skipped", "hidden files or folders were skipped"),
            (
                self.leftovers,
                "system file or folder was skipped",
                "system files or folders were skipped",
            ),
            (self.dangling, "broken link was skipped", "broken links were skipped"),
            (
                self.loops,
                "link into a parent folder was not followed",
                "links into a parent folder were not followed",
            ),
            (
                self.special,
                "entry that is neither a file nor a folder was skipped",
                "entries that are neither files nor folders were skipped",
            ),
        )
        lines = [counted(names, one, many) for names, one, many in kinds if names]
        if self.unread:
            files = things(
                self.unread.total(),
                "file of an unsupported format was skipped",
                "files of unsupported formats were skipped",
            )
            lines.append(f"{files}: {_counts(self.unread)}. Convert to PNG, JPEG or TIFF.")
        if self.suffixes:
            files = things(
                self.suffixes.total(),
                "file without an image extension was skipped",
                "files without an image extension were skipped",
            )
            lines.append(f"{files}: {_counts(self.suffixes)}.")
        return lines

    def add_file(self, name: str) -> None:
        """Record a file that is not a supported image."""
        suffix = _suffix(name)
        (self.unread if suffix in UNREAD_SUFFIXES else self.suffixes)[suffix] += 1


def find_images(folder: Path) -> tuple[list[Path], list[str]]:
    """Return the sorted image files in a folder and its subfolders, and sentences about what was skipped.

    Links are followed, except broken ones and links into a parent folder.

    Raises:
        ValueError: there is no image.
        OSError: a subfolder cannot be read.
    """
    left = LeftOut()
    found = sorted(walk(folder, folder, (file_key(folder),), left))
    if not found:
        lines = "".join(f" {sentence}" for sentence in left.sentences())
        raise ValueError(
            f"A folder or its subfolders must contain images, but {folder} contains none. Check the path.{lines}"
        )
    return found, left.sentences()


def walk(folder: Path, root: Path, above: tuple[FileKey, ...], left: LeftOut) -> Iterator[Path]:
    """Yield the image files below a folder; `above` holds the parent folders, to detect loops of links."""
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
    """Yield the visible files and folders of a folder, sorted by name."""
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
    """Return the entry, or its path if it is a link, because `os.DirEntry.is_dir` raises for a link to itself."""
    return Path(entry.path) if entry.is_symlink() else entry


def relative_name(path: Path, root: Path) -> str:
    """Return the escaped POSIX path of a file relative to a parent folder."""
    return escape_name(path.relative_to(root).as_posix())


def is_image(name: str) -> bool:
    """Return whether a file has the extension of a supported format."""
    return _suffix(name) in IMAGE_SUFFIXES


def file_key(path: Path) -> FileKey:
    """Return a key that identifies a folder however it is reached."""
    status = path.stat()
    return status.st_dev, status.st_ino


def _suffix(name: str) -> str:
    return escape_name(Path(name).suffix.lower()) or "(none)"


def _counts(suffixes: Counter[str]) -> str:
    return ", ".join(f"{count} × {suffix}" for suffix, count in sorted(suffixes.items()))
