"""Images that were given to the page: their bytes as they came, few enough to fit, for as long as the server runs."""

import re
import secrets
import shutil
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from frostbench.embedcache.decode import decode_file

MIB = 2**20
MOST_BYTES = 50 * MIB
"""The largest image that is taken."""
MOST_TOTAL = 500 * MIB
"""What all images that are kept may take together; the oldest go first."""
PREVIEW_PIXELS = 480
"""The longer side of what is shown of an image."""
NAME_CHARACTERS = 200


class UploadError(ValueError):
    """An image is too large, there is no room for it, or it is no longer there."""


@dataclass(frozen=True)
class Upload:
    """An image as it came.

    Attributes:
        path: where its bytes are.
        name: how its file was called; views of an image are drawn by it.
        size: in bytes.
    """

    path: Path
    name: str
    size: int

    @property
    def preview(self) -> Path:
        """Where the picture of it is that the page shows."""
        return self.path.with_name("preview.png")


@dataclass
class Uploads:
    """Keeps images below a folder that belongs to it alone; safe in many threads.

    Attributes:
        folder: it need not exist yet.
        most_bytes: the largest image that is taken.
        most_total: what all of them may take together, those on their way included.
    """

    folder: Path
    most_bytes: int = MOST_BYTES
    most_total: int = MOST_TOTAL
    _kept: dict[str, Upload] = field(default_factory=dict)
    _coming: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    async def take(self, name: str, chunks: AsyncIterator[bytes]) -> str:
        """Keep an image whose bytes come in chunks; returns its ID. What was not taken whole is not kept.

        Raises:
            UploadError: it is too large, or too many others are on their way.
            OSError: it cannot be written.
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
                self._coming -= 1
        with self._lock:
            self._kept[key] = Upload(path, plain_name(name), size)
        return key

    def get(self, key: str) -> Upload:
        """An image that is kept.

        Raises:
            UploadError: it is not, or no longer.
        """
        with self._lock:
            found = self._kept.get(key)
        if found is None:
            raise UploadError("an image must still be with the server, however: this one has gone. Choose it again.")
        return found

    def drop(self, key: str) -> None:
        """Remove an image; one that is not there is no error."""
        with self._lock:
            found = self._kept.pop(key, None)
        if found is not None:
            shutil.rmtree(found.path.parent, ignore_errors=True)

    def _make_room(self) -> None:
        """Make sure that one more image of the largest size fits, by dropping the oldest."""
        with self._lock:
            self._coming += 1
            room = self.most_total - self._coming * self.most_bytes
            if room < 0:
                self._coming -= 1
                raise UploadError(
                    f"images that come at one time take at most {self.most_total // MIB} MB, however: others are still "
                    "on their way. Try again in a moment."
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
                    raise UploadError(
                        f"an image takes at most {self.most_bytes // MIB} MB, however: more came. Give a smaller one."
                    )
                file.write(chunk)
        return size


def plain_name(name: str) -> str:
    r"""The last part of a file's name, without characters that control anything.

    >>> plain_name("../a\\b/cat\n.png"), plain_name("..")
    ('cat.png', 'image')
    """
    last = re.split(r"[/\\]", name)[-1]
    kept = "".join(letter for letter in last if letter.isprintable())[:NAME_CHARACTERS].strip()
    return kept if kept.strip(".") else "image"


def write_preview(upload: Upload) -> None:
    """Write what the page shows of an image: its pixels as heads get them, smaller.

    Raises:
        DecodeError: it cannot be decoded.
        OSError: it cannot be written.
    """
    picture = Image.fromarray(np.ascontiguousarray(decode_file(upload.path)))
    picture.thumbnail((PREVIEW_PIXELS, PREVIEW_PIXELS))
    picture.save(upload.preview, "PNG")
