"""Files and folders that are whole as soon as they have their name, whatever dies on the way."""

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
    """A file to write in place of another, which gets its name when the block ends well.

    A reader, or a crash, sees the old file or the new one. Where the path is a link, the file behind it is replaced.

    Yields:
        An empty file beside it; whatever opens it by its path may write it.

    Raises:
        OSError: it cannot be written; the old file is as it was, and the half-written one is gone.
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
    """A folder to fill, which gets its name when the block ends well; what killed processes left of it is deleted.

    Args:
        path: a new folder, or an empty one.
        what: is written, for the message.

    Yields:
        An empty folder beside it.

    Raises:
        FileExistsError: something else has the name, at the beginning or at the end.
        OSError: it cannot be written; nothing is left behind.
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
        # Gone already, where all went well.
        shutil.rmtree(partial, ignore_errors=True)
        if not partial.exists():
            with suppress(OSError):
                mark_of(partial).unlink()
        os.close(descriptor)


def is_empty_folder(path: Path) -> bool:
    """Whether a path is a folder with nothing in it, and no link to one."""
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    with new_file(path) as partial:
        partial.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file whole or not at all, with line ends as they are."""
    write_bytes(path, text.encode("utf-8", "replace"))


def write_json(path: Path, tree: Any) -> None:
    """Write a JSON file whole or not at all, with its keys in order."""
    write_text(path, json.dumps(tree, indent=1))


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Bring a folder to the disk with all that is in it."""
    for place, _, files in os.walk(folder):
        for name in files:
            sync(Path(place) / name)
        sync(Path(place))


def _rename(partial: Path, path: Path, what: str) -> None:
    """Give a folder its name; an empty folder of that name is replaced, and no other."""
    try:
        partial.rename(path)
    except OSError as error:
        if os.path.lexists(path):
            raise FileExistsError(
                f"{what} is a new folder, however: {path} was made by others meanwhile. Choose another name."
            ) from error
        raise
