"""Atomic writing of files and folders, which get their name only when they are complete."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from frostbench.embedcache.outputs.leftovers import beside, clear_leftovers, create_locked, mark_of
from frostbench.embedcache.outputs.places import check_new_folder


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Create a partial file that replaces the target when the block ends without an error.

    Readers see either the old or the new file, even after a crash. If the path is a link, its target is replaced.

    Yields:
        Path of an empty file beside the target, to be opened and written.

    Raises:
        OSError: the file cannot be written; the old file is unchanged, and the partial one is deleted.
    """
    target = path.resolve() if path.is_symlink() else path
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = beside(target)
    descriptor = create_locked(partial)
    try:
        yield partial
        sync(partial)
        partial.replace(target)
        sync(target.parent)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


@contextmanager
def new_folder(path: Path, what: str = "an export") -> Iterator[Path]:
    """Create a partial folder that gets its name when the block ends without an error, and delete earlier leftovers.

    Args:
        path: new or empty folder.
        what: noun for the folder, for the message.

    Yields:
        Path of an empty folder beside it.

    Raises:
        FileExistsError: the path is taken, at the beginning or at the end.
        OSError: the folder cannot be written; the partial folder is deleted.
    """
    if not is_empty_folder(path):
        check_new_folder(path, what)
    path.parent.mkdir(parents=True, exist_ok=True)
    clear_leftovers(path.parent, path.name)
    partial = beside(path)
    descriptor = create_locked(mark_of(partial))
    try:
        partial.mkdir()
        yield partial
        sync_tree(partial)
        _rename(partial, path, what)
        sync(path.parent)
    finally:
        # After success the partial folder is already renamed.
        shutil.rmtree(partial, ignore_errors=True)
        if not partial.exists():
            with suppress(OSError):
                mark_of(partial).unlink()
        os.close(descriptor)


def is_empty_folder(path: Path) -> bool:
    """Return whether a path is an empty folder and not a link."""
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with new_file(path) as partial:
        partial.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file atomically, without changing line endings."""
    write_bytes(path, text.encode("utf-8", "replace"))


def write_json(path: Path, tree: Any) -> None:
    """Write a JSON file atomically, keeping the order of keys."""
    write_text(path, json.dumps(tree, indent=1))


def sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Flush a folder and everything in it to disk."""
    for directory, _, files in os.walk(folder):
        for name in files:
            sync(Path(directory) / name)
        sync(Path(directory))


def _rename(partial: Path, path: Path, what: str) -> None:
    """Rename a folder, replacing an empty folder only."""
    try:
        partial.rename(path)
    except OSError as error:
        if os.path.lexists(path):
            raise FileExistsError(
                f"{what} must be a new folder, but another process has created {path}. Choose another name."
            ) from error
        raise
