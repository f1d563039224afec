"""Small pictures of a cache's images, made once and kept in a file of the cache."""

import hashlib
import sqlite3
from contextlib import closing, suppress
from io import BytesIO
from pathlib import Path

from PIL import Image

from frostbench.embedcache.decode import DecodeError, decode_bytes
from frostbench.embedcache.items import Item
from frostbench.embedcache.sources.reading import read_item

SIZES = (96, 320)
"""Longest sides in pixels."""
NAME = "thumbnails.sqlite"
"""Name of the file in the cache; it can be deleted at any time."""
QUALITY = {96: 70, 320: 82}
WAIT_SECONDS = 5.0
_TABLE = "CREATE TABLE IF NOT EXISTS thumbnails (sha256 TEXT, size INTEGER, webp BLOB, PRIMARY KEY (sha256, size))"


def thumbnail(cache_dir: Path, item: Item, content: str, size: int) -> bytes:
    """Return a picture of an image as WebP, at most `size` pixels wide and high.

    It is made from the image's file if it is not kept yet. Where the cache is not writable, it is made each time.

    Args:
        cache_dir: the cache.
        item: the image.
        content: SHA-256 of the file when it was embedded, hex.
        size: one of `SIZES`.

    Raises:
        DecodeError: the file cannot be read, is not an image, or has changed since it was embedded.
        ValueError: there is no such size.
    """
    if size not in SIZES:
        raise ValueError(f"Pictures are made in the sizes {SIZES}, got {size}. Choose one of them.")
    kept = _kept(cache_dir, content, size)
    if kept is not None:
        return kept
    data = read_item(item)
    if hashlib.sha256(data).hexdigest() != content:
        raise DecodeError("the file has changed since it was embedded")
    made = make_thumbnail(data, size)
    _keep(cache_dir, content, size, made)
    return made


def make_thumbnail(data: bytes, size: int) -> bytes:
    """Return a picture of an encoded image as WebP, decoded as for a backbone, at most `size` pixels wide and high.

    Raises:
        DecodeError: the content is not an image that can be embedded.
    """
    picture = Image.fromarray(decode_bytes(data))
    # Halving by whole factors first takes a fraction of the time, and 3 × the pixels are left for the last step.
    picture.thumbnail((size, size), Image.Resampling.LANCZOS, reducing_gap=3.0)
    out = BytesIO()
    picture.save(out, "WEBP", quality=QUALITY[size], method=2)
    return out.getvalue()


def _kept(cache_dir: Path, content: str, size: int) -> bytes | None:
    """Return a kept picture; None if there is none, or the file is unreadable."""
    path = cache_dir / NAME
    if not path.is_file() or path.is_symlink():
        return None
    try:
        with closing(_connect(path, "ro")) as kept:
            row = kept.execute("SELECT webp FROM thumbnails WHERE sha256 = ? AND size = ?", (content, size)).fetchone()
    except sqlite3.Error:
        return None
    return row[0] if row is not None and isinstance(row[0], bytes) else None


def _keep(cache_dir: Path, content: str, size: int, made: bytes) -> None:
    """Keep a picture where the cache is writable; a damaged file of pictures is begun anew."""
    path = cache_dir / NAME
    if path.is_symlink():
        return
    try:
        _insert(path, content, size, made)
    except sqlite3.OperationalError:
        pass  # a read-only folder, or another process that writes for longer than the wait
    except sqlite3.DatabaseError:
        with suppress(OSError, sqlite3.OperationalError):  # damaged, in a folder where it cannot be replaced
            path.unlink(missing_ok=True)
            _insert(path, content, size, made)


def _insert(path: Path, content: str, size: int, made: bytes) -> None:
    with closing(_connect(path, "rwc")) as kept, kept:
        kept.execute(_TABLE)
        kept.execute("INSERT OR REPLACE INTO thumbnails VALUES (?, ?, ?)", (content, size, made))


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    opened = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=WAIT_SECONDS)
    # Pictures can be made again, so they need not be flushed to disk one by one.
    opened.execute("PRAGMA synchronous = OFF")
    return opened
