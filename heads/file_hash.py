"""SHA-256 of the files that specs read."""

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def known_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, cached until its size or times change, because forms request it often."""
    now = path.stat()
    return _sha256_of(path, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)


@lru_cache(maxsize=64)
def _sha256_of(path: Path, *_written: int) -> str:
    return file_sha256(path)


def with_file_hash(tree: Any) -> Any:
    """Return a spec's raw fields with `sha256` filled in from its `file`, if the file exists and no hash is given.

    The spec, and with it the run key, then identifies the file's content and not only its path.
    """
    file = tree.get("file") if isinstance(tree, dict) else None
    if isinstance(file, str) and not tree.get("sha256") and Path(file).is_file():
        return tree | {"sha256": known_sha256(Path(file))}
    return tree
