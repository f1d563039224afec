"""Photos that were uploaded to stay: written once into folders of their own, and never overwritten."""

import os
import secrets
import shutil
import stat
import threading
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile, ZipInfo

from frostbench.app.uploads import MIB, MOST_BYTES
from frostbench.app.workbench.photos.names import (
    MOST_NAME_BYTES,
    PhotoError,
    describe_skipped,
    free_name,
    unwrapped,
    wanted_parts,
)
from frostbench.embedcache.items import escape_name

HOME = "photos"
"""Folder for uploaded photos, unless a person has one of this name."""
MARK = ".frostbench-uploads"
"""Hidden file that marks such a folder."""
MOST_FILES = 50_000
MOST_TOTAL = 10_240 * MIB
CHUNK = MIB
ADVICE = "Copy them below the folder of the page, and name that folder."


@dataclass
class PhotoSet:
    """Files that were uploaded together.

    Attributes:
        folder: folder of the set.
        files: number of files.
        size: their size in bytes, including those that are being written.
    """

    folder: Path
    files: int = 0
    size: int = 0


@dataclass
class PhotoSets:
    """Thread-safe sets of uploaded photos below the folder of the page.

    Attributes:
        root: folder of the page.
        most_bytes: largest size of a file.
        most_files: largest number of files in a set.
        most_total: largest size of a set in bytes.
    """

    root: Path
    most_bytes: int = MOST_BYTES
    most_files: int = MOST_FILES
    most_total: int = MOST_TOTAL
    _sets: dict[str, PhotoSet] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def home(self) -> str:
        """Folder for uploaded photos, relative to the root: the first that does not exist yet or is marked as such."""
        for name in chain([HOME], (f"uploaded-{HOME}-{number}" for number in count(1))):
            path = self.root / name
            if not os.path.lexists(path) or ((path / MARK).is_file() and not path.is_symlink()):
                return name
        raise AssertionError("unreachable: the names do not end")

    def begin(self, name: str) -> str:
        """Make a folder for a new set and return its path relative to the root.

        Raises:
            OSError: the folder cannot be made.
        """
        with self._lock:
            home = self.home
            folder = self.root / home
            folder.mkdir(exist_ok=True)
            (folder / MARK).touch()
            own = folder / free_name(name, folder)
            own.mkdir()
            self._sets[f"{home}/{own.name}"] = PhotoSet(own)
            return f"{home}/{own.name}"

    async def keep(self, key: str, name: str, chunks: AsyncIterator[bytes]) -> None:
        """Write a file of a set; what is incomplete is removed.

        Raises:
            PhotoError: the name is unsafe, there is such a file already, or it is too much.
            OSError: it cannot be written.
        """
        found, parts, size = self._get(key), wanted_parts(name), 0
        if parts is None:
            raise PhotoError(f"{escape_name(name[-MOST_NAME_BYTES:])!r} is no image that can be read. Leave it out.")
        self._reserve(found, 1, 0)
        try:
            with new_file(found.folder, parts) as file:
                async for chunk in chunks:
                    self._check_size(parts[-1], size + len(chunk))
                    self._reserve(found, 0, len(chunk))
                    size += len(chunk)
                    file.write(chunk)
        except BaseException:
            self._reserve(found, -1, -size)
            raise

    def keep_zip(self, key: str, packed: Path) -> dict[str, Any]:
        """Write the images of a zip file; return the number `kept` and `notes` on files that were skipped.

        Nothing is written if a name in it is unsafe or it holds too much.

        Raises:
            PhotoError: it is not a readable zip file, a name in it is unsafe, or it holds too much or no image.
            OSError: an image cannot be written.
        """
        found = self._get(key)
        try:
            with ZipFile(packed) as opened:
                named = [(one, wanted_parts(one.filename)) for one in opened.infolist() if not one.is_dir()]
                wanted = [(one, parts) for one, parts in named if parts is not None and not _is_link(one)]
                self._check_zip([one for one, _ in wanted], found)
                inner = unwrapped([parts for _, parts in wanted])
                kept = sum(
                    self._unpack(opened, one, parts, found) for (one, _), parts in zip(wanted, inner, strict=True)
                )
        # An encrypted member raises a RuntimeError, an unknown compression a NotImplementedError.
        except (BadZipFile, RuntimeError, NotImplementedError, EOFError, zlib.error) as error:
            raise PhotoError(f"The zip file cannot be read: {error}. Pack it again without a password.") from error
        taken = {one.filename for one, _ in wanted}
        notes = describe_skipped(one.filename for one, _ in named if one.filename not in taken)
        if kept < len(wanted):
            notes.append(f"Files whose name is kept already were skipped: {len(wanted) - kept:,}.")
        return {"kept": kept, "notes": notes}

    def _get(self, key: str) -> PhotoSet:
        found = self._sets.get(key)
        if found is None:
            raise PhotoError("This upload is no longer open. Reload the page and choose the photos again.")
        return found

    def _unpack(self, opened: ZipFile, one: ZipInfo, parts: list[str], found: PhotoSet) -> bool:
        """Write a member; return False if there is such a file already."""
        if os.path.lexists(found.folder.joinpath(*parts)):
            return False
        with new_file(found.folder, parts) as file, opened.open(one) as packed:
            shutil.copyfileobj(packed, file, CHUNK)
        self._reserve(found, 1, one.file_size)
        return True

    def _check_zip(self, wanted: list[ZipInfo], found: PhotoSet) -> None:
        """Check number and unpacked sizes, as the zip file states them, which `ZipFile.open` enforces."""
        if not wanted:
            raise PhotoError("A zip file must hold images, but this one holds none. Pack images.")
        for one in wanted:
            self._check_size(one.filename, one.file_size)
        total = sum(one.file_size for one in wanted)
        self._check_room(found, len(wanted), total)
        free = shutil.disk_usage(found.folder).free
        if total > free:
            raise PhotoError(
                f"The photos need {total // MIB:,} MiB, but {free // MIB:,} MiB are free on the disk. Make room."
            )

    def _reserve(self, found: PhotoSet, files: int, size: int) -> None:
        with self._lock:
            self._check_room(found, max(0, files), max(0, size))
            found.files += files
            found.size += size

    def _check_room(self, found: PhotoSet, files: int, size: int) -> None:
        if files and found.files + files > self.most_files:
            raise PhotoError(f"At most {self.most_files:,} photos can be uploaded together. {ADVICE}")
        if size and found.size + size > self.most_total:
            raise PhotoError(f"Photos that are uploaded may have {self.most_total // MIB:,} MiB together. {ADVICE}")

    def _check_size(self, name: str, size: int) -> None:
        if size > self.most_bytes:
            raise PhotoError(f"A photo may have at most {self.most_bytes // MIB} MiB, but {name!r} is larger. {ADVICE}")


@contextmanager
def new_file(folder: Path, parts: list[str]) -> Iterator[IO[bytes]]:
    """Open a file that appears under its name only once it is complete, and never replaces another.

    Raises:
        PhotoError: there is a file of this name, or of that of one of its folders.
        OSError: it cannot be written.
    """
    path, partial = folder.joinpath(*parts), folder / f".uploading-{secrets.token_hex(8)}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("xb").close()
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise PhotoError(f"{escape_name('/'.join(parts))!r} is kept already, and was not replaced.") from error
    try:
        with partial.open("xb") as file:
            yield file
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        raise


def _is_link(one: ZipInfo) -> bool:
    return stat.S_ISLNK(one.external_attr >> 16)
