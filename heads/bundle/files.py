"""The files of a bundle as they are read: regular, of the stated size, and with the digests of the card."""

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CARD, TENSORS, PICTURE, ENSEMBLE = "card.json", "head.safetensors", "canary.png", "ensemble.json"
CARD_BYTES = 64 * 2**20
"""The most that a card is read of: a hundred thousand classes take about ten million bytes."""
PICTURE_BYTES = 4 * 2**20
SEAL = "card_sha256"
"""Under this key a card has the digest of all that else stands in it."""


class BundleError(ValueError):
    """A folder is no bundle, or one that was changed, damaged or written by another version."""


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def sealed(tree: Mapping[str, Any], seal: str = SEAL) -> dict[str, Any]:
    """A tree with the digest of all its other fields, in whatever order and with whatever spaces they stand."""
    told: dict[str, Any] = json.loads(
        json.dumps({key: value for key, value in tree.items() if key != seal}, allow_nan=False)
    )
    text = json.dumps(told, sort_keys=True, separators=(",", ":"))
    return told | {seal: digest(text.encode())}


def is_as_sealed(tree: Mapping[str, Any], seal: str = SEAL) -> bool:
    """Whether a tree is what its digest says; one that states no digest is from before there was one."""
    return seal not in tree or sealed(tree, seal)[seal] == tree[seal]


def read_card_tree(folder: Path, file: str) -> dict[str, Any]:
    """The JSON object in a card; its digest is compared where it states one.

    Raises:
        BundleError: there is no such file, it is no JSON object, or it was changed.
    """
    try:
        content = read_regular(folder, file, most=CARD_BYTES)
    except FileNotFoundError as error:
        raise BundleError(
            f"a bundle is a folder with {CARD} and {TENSORS}, however: {folder} has no {file} that can be read. "
            "Give the folder that `frostbench export` wrote."
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
            f"the card of a bundle must be as it was exported, however: {file} of {folder} was changed. Put the old "
            "file back, or export it again."
        )
    return tree


def not_as_written(folder: Path, file: str, error: Exception) -> BundleError:
    """The error of a card that holds something else than a card."""
    told = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    return BundleError(
        f"{file} must be as `frostbench export` wrote it, however: that of {folder} is not ({told}). Export it again."
    )


def read_regular(folder: Path, name: str, *, size: int | None = None, most: int | None = None) -> bytes:
    """The bytes of a file of a bundle, which must lie in it: no link, device or pipe, and no larger than allowed.

    Args:
        folder: of the bundle.
        name: of the file in it, a name alone.
        size: bytes that it must have; None takes what it has.
        most: the most that it may have; None bounds nothing.

    Raises:
        FileNotFoundError: there is no such file.
        BundleError: it cannot be read, is no regular file, or has another size.
    """
    path = folder / name
    try:
        # Without waiting for the other end of a pipe, and without following a link.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise _foreign(path, "it is no regular file")
            if size is not None and found.st_size != size:
                raise _foreign(path, f"it has {found.st_size} bytes and not {size}, so it was changed")
            if most is not None and found.st_size > most:
                raise _foreign(path, f"it has {found.st_size} bytes, and at most {most} are read")
            return file.read()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _foreign(path, f"it cannot be read as one ({error.strerror})") from error


def _foreign(path: Path, why: str) -> BundleError:
    return BundleError(
        f"a bundle holds regular files of its own, however: {path.name} of {path.parent} is none: {why}. Export it "
        "again."
    )


def read_stated(folder: Path, name: str, stated: str, size: int | None, most: int | None = None) -> bytes:
    """A file that has the digest, and where it is known the size, that its card states.

    Raises:
        BundleError: it is missing, no regular file, or was changed.
    """
    try:
        content = read_regular(folder, name, size=size, most=most)
    except FileNotFoundError as error:
        raise BundleError(
            f"a bundle holds every file of its card, however: {name} of {folder} cannot be read. Export it again."
        ) from error
    if digest(content) != stated:
        raise BundleError(
            f"the files of a bundle must be as they were exported, however: {name} of {folder} was changed. "
            "Export it again."
        )
    return content
