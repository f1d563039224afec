"""Copies finished runs from one store to another; a run is identified by its key, wherever it was trained."""

import os
import shutil
from pathlib import Path

from frostbench.benchmarks.runs.store import StoreError, is_finished, read_record, run_folder
from frostbench.embedcache.outputs.writing import new_folder


def take_over(key: str, source: Path, store: Path) -> bool:
    """Copy a finished run to another store atomically; return whether the run is valid and now in that store.

    Files of a run never change, so they are hard-linked if both stores are on one disk. A run is rejected if its
    record cannot be read or has another key, or if it holds anything but regular files and folders.

    Raises:
        OSError: the store cannot be written.
    """
    origin, target = run_folder(source, key), run_folder(store, key)
    try:
        if read_record(source, key).key != key or not _is_plain(origin):
            return False
    except StoreError:
        return False
    if is_finished(store, key):
        return True
    try:
        with new_folder(target, "a run") as partial:
            shutil.copytree(origin, partial, copy_function=_link_or_copy, dirs_exist_ok=True)
    except FileExistsError:
        if not is_finished(store, key):  # otherwise another process has copied it meanwhile
            raise
    return True


def _is_plain(folder: Path) -> bool:
    """Return whether a folder is not a link and holds only folders and regular files."""
    if folder.is_symlink():
        return False
    with os.scandir(folder) as entries:
        return all(
            entry.is_file(follow_symlinks=False)
            or (entry.is_dir(follow_symlinks=False) and _is_plain(folder / entry.name))
            for entry in entries
        )


def _link_or_copy(origin: str, target: str) -> str:
    try:
        os.link(origin, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(origin, target, follow_symlinks=False)
    return target
