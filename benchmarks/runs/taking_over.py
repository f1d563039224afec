"""Runs of one store in another: a run is its key, wherever it was trained."""

import os
import shutil
from pathlib import Path

from frostbench.benchmarks.runs.store import StoreError, is_finished, read_record, run_folder
from frostbench.embedcache.outputs.writing import new_folder


def take_over(key: str, source: Path, store: Path) -> bool:
    """Put a finished run of one store into another, whole or not at all; whether it is one that can be taken over.

    Files of a run never change, so they are linked where both stores are on one disk, and else copied. A run that is
    called otherwise than its record says, whose record cannot be read, or that holds anything but plain files and
    folders, is left where it is.

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
        if not is_finished(store, key):  # else another process has taken it over meanwhile
            raise
    return True


def _is_plain(folder: Path) -> bool:
    """Whether a folder holds nothing but folders and regular files, and is no link itself."""
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
