"""Reading the files of a bundle: regular files with the size and digest that the card states."""

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CARD, TENSORS, PICTURE, ENSEMBLE = "card.json", "head.safetensors", "canary.png", "ensemble.json"
CARD_BYTES = 64 * 2**20
"""Maximum size of a card; a hundred thousand classes take about ten million bytes."""
PICTURE_BYTES = 4 * 2**20
SEAL = "card_sha256"
"""Key of a card's digest of all its other fields."""


class BundleError(ValueError):
    """A folder is not a bundle, or was changed, damaged or written by another version."""


def digest(content: bytes) -> str:
    """Return the SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def sealed(tree: Mapping[str, Any], seal: str = SEAL) -> dict[str, Any]:
    """Return a tree with a digest of all its other fields, independent of their order and of whitespace."""
    fields: dict[str, Any] = json.loads(
        json.dumps({key: value for key, value in tree.items() if key != seal}, allow_nan=False)
    )
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return fields | {seal: digest(text.encode())}


def is_as_sealed(tree: Mapping[str, Any], seal: str = SEAL) -> bool:
    """Return whether a tree matches its digest; trees of earlier formats have none and pass."""
    return seal not in tree or sealed(tree, seal)[seal] == tree[seal]


def read_card_tree(folder: Path, file: str) -> dict[str, Any]:
    """Return the JSON object in a card, after a check of its digest if it has one.

    Raises:
        BundleError: the file is missing, holds no JSON object, or was changed.
    """
    try:
        content = read_regular(folder, file, most=CARD_BYTES)
    except FileNotFoundError as error:
        raise BundleError(
            f"A bundle must be a folder with {CARD} and {TENSORS}, but {folder} has no readable {file}. Pass a folder "
            "that `frostbench export` wrote."
        ) from error
    try:
        tree = json.loads(content)
        changed = isinstance(tree, dict) and not is_as_sealed(tree)
    except (ValueError, RecursionError) as error:
        raise not_as_written(folder, file, error) from error
    if not isinstance(tree, dict):
        raise not_as_written(folder, file, ValueError("it holds no JSON object"))
    if changed:
        raise BundleError(
            f"The card of a bundle must be unchanged, but {file} in {folder} was modified. Restore the file, or export "
            "the head again."
        )
    return tree


def not_as_written(folder: Path, file: str, error: Exception) -> BundleError:
    """Return the error for a file that is not a valid card."""
    reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    return BundleError(
        f"{file} must be as `frostbench export` wrote it, but that in {folder} is not ({reason}). Export it again."
    )


def read_regular(folder: Path, name: str, *, size: int | None = None, most: int | None = None) -> bytes:
    """Return the bytes of a regular file in a bundle; links, devices, pipes and larger files are rejected.

    Args:
        folder: the bundle.
        name: name of the file in it.
        size: required size in bytes, or None.
        most: maximum size in bytes, or None.

    Raises:
        FileNotFoundError: the file does not exist.
        BundleError: it cannot be read, is not a regular file, has another size, or is too large.
    """
    path = folder / name
    try:
        # Neither wait for the other end of a pipe nor follow a link.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise _foreign(path, "it is not a regular file")
            if size is not None and status.st_size != size:
                raise _foreign(path, f"it has {status.st_size} bytes instead of {size}, so it was changed")
            if most is not None and status.st_size > most:
                raise _foreign(path, f"it has {status.st_size} bytes, more than the limit of {most}")
            return file.read()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _foreign(path, f"it cannot be read as a regular file ({error.strerror})") from error


def _foreign(path: Path, reason: str) -> BundleError:
    return BundleError(
        f"The files of a bundle must be regular and unchanged, but {path.name} in {path.parent} is not: {reason}. "
        "Export the head again."
    )


def read_stated(folder: Path, name: str, stated: str, size: int | None, most: int | None = None) -> bytes:
    """Return the content of a file after a check of its digest and, if known, its size.

    Raises:
        BundleError: it is missing, not a regular file, or was changed.
    """
    try:
        content = read_regular(folder, name, size=size, most=most)
    except FileNotFoundError as error:
        raise BundleError(
            f"A bundle must hold every file of its card, but {name} in {folder} is missing. Export the head again."
        ) from error
    if digest(content) != stated:
        raise BundleError(
            f"The files of a bundle must be unchanged, but {name} in {folder} was modified. Export the head again."
        )
    return content
