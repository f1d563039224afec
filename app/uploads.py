"""Images uploaded to the page, kept unchanged while the server runs, up to a total size."""

import re
import secrets
import shutil
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

MIB = 2**20
MOST_BYTES = 50 * MIB
"""Maximum size of an image."""
MOST_TOTAL = 500 * MIB
"""Maximum total size of all images; the oldest are removed first."""
NAME_CHARACTERS = 200


class UploadError(ValueError):
    """An image is too large, does not fit beside other uploads, or is no longer on the server."""


@dataclass(frozen=True)
class Upload:
    """An uploaded image.

    Attributes:
        path: file with its bytes.
        name: original file name, which seeds the random views of the image.
        size: size in bytes.
    """

    path: Path
    name: str
    size: int


@dataclass
class Uploads:
    """Thread-safe store of uploaded images below a folder of its own.

    Attributes:
        folder: folder for the images; it need not exist yet.
        most_bytes: maximum size of an image.
        most_total: maximum total size, including uploads in progress.
    """

    folder: Path
    most_bytes: int = MOST_BYTES
    most_total: int = MOST_TOTAL
    _kept: dict[str, Upload] = field(default_factory=dict)
    _n_uploading: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    async def take(self, name: str, chunks: AsyncIterator[bytes]) -> str:
        """Store an image that arrives in chunks and return its ID; an incomplete upload is removed.

        Raises:
            UploadError: the image is too large, or too many uploads are in progress.
            OSError: the image cannot be written.
        """
        self._make_room()
        key = secrets.token_hex(16)
        path = self.folder / key / "image"
        try:
            path.parent.mkdir(parents=True)
            size = await self._write(path, chunks)
        except BaseException:
            shutil.rmtree(path.parent, ignore_errors=True)
            raise
        finally:
            with self._lock:
                self._n_uploading -= 1
        with self._lock:
            self._kept[key] = Upload(path, plain_name(name), size)
        return key

    def keep(self, name: str, content: bytes) -> str:
        """Store an image that is in memory and return its ID.

        Raises:
            UploadError: the image is too large, or too many uploads are in progress.
            OSError: the image cannot be written.
        """
        if len(content) > self.most_bytes:
            raise self._too_large()
        self._make_room()
        key = secrets.token_hex(16)
        path = self.folder / key / "image"
        try:
            path.parent.mkdir(parents=True)
            path.write_bytes(content)
        except BaseException:
            shutil.rmtree(path.parent, ignore_errors=True)
            raise
        finally:
            with self._lock:
                self._n_uploading -= 1
        with self._lock:
            self._kept[key] = Upload(path, plain_name(name), len(content))
        return key

    def get(self, key: str) -> Upload:
        """Return a stored image.

        Raises:
            UploadError: the image is not, or no longer, stored.
        """
        with self._lock:
            upload = self._kept.get(key)
        if upload is None:
            raise UploadError("This image is no longer on the server. Choose it again.")
        return upload

    def drop(self, key: str) -> None:
        """Remove an image if it is stored."""
        with self._lock:
            upload = self._kept.pop(key, None)
        if upload is not None:
            shutil.rmtree(upload.path.parent, ignore_errors=True)

    def _make_room(self) -> None:
        """Reserve room for an image of the largest size, removing the oldest images if needed."""
        with self._lock:
            self._n_uploading += 1
            room = self.most_total - self._n_uploading * self.most_bytes
            if room < 0:
                self._n_uploading -= 1
                raise UploadError(
                    f"Images uploaded at the same time may take at most {self.most_total // MIB} MiB, and others are "
                    "still being uploaded. Try again in a moment."
                )
            kept = sum(upload.size for upload in self._kept.values())
            oldest = []
            for key, upload in self._kept.items():
                if kept <= room:
                    break
                oldest.append(key)
                kept -= upload.size
        for key in oldest:
            self.drop(key)

    async def _write(self, path: Path, chunks: AsyncIterator[bytes]) -> int:
        size = 0
        with path.open("wb") as file:
            async for chunk in chunks:
                size += len(chunk)
                if size > self.most_bytes:
                    raise self._too_large()
                file.write(chunk)
        return size

    def _too_large(self) -> UploadError:
        return UploadError(
            f"An image may have at most {self.most_bytes // MIB} MiB, but this one is larger. Choose a smaller image."
        )


def plain_name(name: str) -> str:
    r"""Return the last part of a file name without control characters.

    >>> plain_name("../a\\b/cat\n.png"), plain_name("..")
    ('cat.png', 'image')
    """
    last = re.split(r"[/\\]", name)[-1]
    kept = "".join(letter for letter in last if letter.isprintable())[:NAME_CHARACTERS].strip()
    return kept if kept.strip(".") else "image"
