"""The closed list of file names that Frostbench writes in a cache. No other file is ever deleted.

A name counts only if it is a regular file in real folders: symbolic links are treated as foreign whatever their name,
and their targets are never touched.
"""

import json
import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal

from frostbench.embedcache.storage.files import CacheError

LOCK = "lock"
HOLDER = "lock.json"
PARTS = "parts"
UPDATE = "update"
FOLDERS = ("shards", "splits", "maps", "views", PARTS, UPDATE)
"""Folders inside a cache; each must be a real folder."""

Kind = Literal["file", "folder", "other"]

_SHARD = r"shards/part-(?:[0-9]{5}|[1-9][0-9]{5,})\.(?:parquet|bad\.json)"
_HEAD = r"(?:cache\.json|items\.parquet|manifest\.json|views\.parquet)"
_STAGED = rf"(?:{_HEAD}|{_SHARD})"
_PART = r"(?:0|[1-9][0-9]*)-of-[1-9][0-9]*"
_KEPT = rf"(?:{_STAGED}|(?:splits|maps)/[0-9a-f]{{16}}\.parquet)"
_UPDATE = rf"update/(?:commit\.json|(?:ready|scratch)/{_STAGED}|scratch/todo\.parquet)"
_PASSING = rf"(?:lock\.json|parts/{_PART}\.(?:lock|json)|{_UPDATE})"
_TMP = r"\.[0-9]+(?:-[0-9a-f]{8})?\.tmp"

MOST_BYTES = 2000
"""Maximum size of a file that names the writing process."""
STAGED = re.compile(_STAGED)
"""Files that an update may put into place."""
PART_FILE = re.compile(rf"{_PART}\.(?:lock|json)")
SHARD_FILE = re.compile(r"part-([0-9]{5}|[1-9][0-9]{5,})\.parquet")
PARTIAL = re.compile(rf"(?:{_KEPT}|{_PASSING}){_TMP}")
"""Half-written files of a killed process."""
PASSING = re.compile(rf"{_PASSING}(?:{_TMP})?")
"""Files that exist only while a cache is being written."""
_INNER = re.compile(r"update/(?:ready|scratch)(?:/shards)?")


def is_plain(path: Path) -> bool:
    """Return whether a path is a regular file and not a link."""
    return path.is_file() and not path.is_symlink()


def is_real_folder(path: Path) -> bool:
    """Return whether a path is a folder and not a link."""
    return path.is_dir() and not path.is_symlink()


def entries(folder: Path, within: str = "", deep: bool = True) -> Iterator[tuple[str, Kind]]:
    """Yield the names in a folder or a subfolder, relative to the folder, with their kind.

    Links are neither files nor folders and are not followed. With `deep`, the content of each folder follows it. A
    missing folder yields nothing.
    """
    if not is_real_folder(folder / within):
        return
    with os.scandir(folder / within) as found:
        for entry in sorted(found, key=lambda one: one.name):
            name = f"{within}/{entry.name}" if within else entry.name
            kind: Kind = "folder" if entry.is_dir(follow_symlinks=False) else "other"
            yield name, "file" if entry.is_file(follow_symlinks=False) else kind
            if deep and kind == "folder":
                yield from entries(folder, name)


def check_own(cache_dir: Path) -> None:
    """Check that writing a cache follows no links and deletes no foreign files.

    Raises:
        CacheError: a folder inside the cache is a link; `parts` or `update` contain foreign files; or `lock` or
            `lock.json` are foreign.
    """
    check_links(cache_dir)
    strange = next(foreign_passing(cache_dir), None)
    if strange is not None:
        raise CacheError(
            f"A cache is written only where no foreign file can be lost, but {cache_dir / strange} was not written by "
            "Frostbench and is in the way. Move it elsewhere, or choose another folder for the cache."
        )


def check_links(cache_dir: Path) -> None:
    """Check that no folder inside a cache is a symbolic link, behind which foreign files could be overwritten.

    Raises:
        CacheError: a folder is a link.
    """
    linked = next((name for name in FOLDERS if (cache_dir / name).is_symlink()), None)
    if linked is not None:
        raise CacheError(
            f"Folders inside a cache must not be links, but {cache_dir / linked} is a link to "
            f"{(cache_dir / linked).readlink()}. Replace it by a folder. The cache as a whole may be behind a link."
        )


def foreign_passing(cache_dir: Path) -> Iterator[str]:
    """Yield foreign files that block writing: those in `parts` and `update`, and a foreign `lock` or `lock.json`.

    Call it only while no other process writes, because a writing process creates and deletes such files.
    """
    for name, is_ours in ((LOCK, is_lock), (HOLDER, names_a_process)):
        if os.path.lexists(cache_dir / name) and not is_ours(cache_dir / name):
            yield name
    for top in (PARTS, UPDATE):
        if os.path.lexists(cache_dir / top) and not is_real_folder(cache_dir / top):
            yield top
        for name, kind in entries(cache_dir, top):
            if not (_is_ours(cache_dir, name) if kind == "file" else kind == "folder" and _INNER.fullmatch(name)):
                yield name


def is_lock(path: Path) -> bool:
    """Return whether a file can be Frostbench's lock: regular and empty."""
    return is_plain(path) and path.stat().st_size == 0


def names_a_process(path: Path) -> bool:
    """Return whether a file only names the process that wrote it, like `lock.json` and the JSON files in `parts`."""
    if not is_plain(path) or path.stat().st_size > MOST_BYTES:
        return False
    try:
        tree = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    return isinstance(tree, dict) and {"pid", "host"} <= tree.keys() <= {"pid", "host", "brief"}


def remove_passing(cache_dir: Path, top: str, kept: Collection[str] = ()) -> None:
    """Delete Frostbench's files in `parts` or `update`, and the folder if nothing else is in it.

    Args:
        cache_dir: the cache, locked by the caller.
        top: `parts` or `update`.
        kept: parts that are being written.
    """
    inside = list(entries(cache_dir, top))
    # Delete the list of a committed update first: without it the remaining files are merely discarded.
    for name, kind in sorted(inside, key=lambda one: one[0] != f"{UPDATE}/commit.json"):
        if kind == "file" and _is_ours(cache_dir, name) and Path(name).name.partition(".")[0] not in kept:
            (cache_dir / name).unlink()
    for name in [*(name for name, kind in reversed(inside) if kind == "folder"), top]:
        if is_real_folder(cache_dir / name) and not any((cache_dir / name).iterdir()):
            (cache_dir / name).rmdir()


def partial_files(cache_dir: Path) -> list[Path]:
    """Return half-written files of a killed run, recognised by name; all other files belong to the user."""
    tops = ("", *(name for name in FOLDERS if name != "views"))
    found = [name for top in tops for name, kind in entries(cache_dir, top, deep=bool(top)) if kind == "file"]
    return sorted(cache_dir / name for name in found if PARTIAL.fullmatch(name))


def _is_ours(cache_dir: Path, name: str) -> bool:
    """Return whether a file in `parts` or `update` has a name and, where it can be checked, content of Frostbench."""
    if not PASSING.fullmatch(name):
        return False
    if name.startswith(f"{PARTS}/") and not name.endswith(".tmp"):
        return (is_lock if name.endswith(".lock") else names_a_process)(cache_dir / name)
    return True
