"""Which files of a cache's folder are of our own making: a closed list of names. Nothing else is ever deleted.

A name counts only where it is a regular file in real folders: a symbolic link is somebody's, whatever it is called, and
what lies behind it is never touched.
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
"""The folders in that of a cache; each is a real one."""

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
"""Of a file that says who writes."""
STAGED = re.compile(_STAGED)
"""What an update may put into place."""
PART_FILE = re.compile(rf"{_PART}\.(?:lock|json)")
SHARD_FILE = re.compile(r"part-([0-9]{5}|[1-9][0-9]{5,})\.parquet")
PARTIAL = re.compile(rf"(?:{_KEPT}|{_PASSING}){_TMP}")
"""What a killed process left half-written."""
PASSING = re.compile(rf"{_PASSING}(?:{_TMP})?")
"""What is there only while a cache is written."""
_INNER = re.compile(r"update/(?:ready|scratch)(?:/shards)?")


def is_plain(path: Path) -> bool:
    """Whether a path is a regular file, and no link to one."""
    return path.is_file() and not path.is_symlink()


def is_real_folder(path: Path) -> bool:
    """Whether a path is a folder, and no link to one."""
    return path.is_dir() and not path.is_symlink()


def entries(folder: Path, within: str = "", deep: bool = True) -> Iterator[tuple[str, Kind]]:
    """The names in a folder, or in one within it, relative to it, and what each is.

    A link is neither file nor folder, and not followed. Behind a folder comes what lies in it, if asked for; a folder
    that is missing has no names.
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
    """Refuse a folder in which writing a cache would follow a link, or empty a folder that holds files of others.

    Raises:
        CacheError: a folder of a cache is a link; `parts` or `update` hold something else than we put there; or `lock`
            or `lock.json` are not ours.
    """
    check_links(cache_dir)
    strange = next(foreign_passing(cache_dir), None)
    if strange is not None:
        raise CacheError(
            f"a cache is written only where nothing of others can be lost, however: {cache_dir / strange} is not ours, "
            "and lies where we write and delete. Move it elsewhere, or choose another folder for the cache."
        )


def check_links(cache_dir: Path) -> None:
    """Refuse a cache of which a folder is a symbolic link: what is written or deleted behind it may be of others.

    Raises:
        CacheError: one is.
    """
    linked = next((name for name in FOLDERS if (cache_dir / name).is_symlink()), None)
    if linked is not None:
        raise CacheError(
            f"the folders in a cache must be real ones, however: {cache_dir / linked} is a link to "
            f"{(cache_dir / linked).readlink()}. Put a folder in its place; the cache as a whole may lie behind a link."
        )


def foreign_passing(cache_dir: Path) -> Iterator[str]:
    """What lies in the way of writing a cache: names in `parts` and `update`, `lock` and `lock.json` that are not ours.

    To be asked where no other process writes, for there files come and go.
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
    """Whether a file can be a lock of ours: a regular one, and empty."""
    return is_plain(path) and path.stat().st_size == 0


def names_a_process(path: Path) -> bool:
    """Whether a file says who writes, as `lock.json` and those in `parts` do, and nothing else."""
    if not is_plain(path) or path.stat().st_size > MOST_BYTES:
        return False
    try:
        tree = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    return isinstance(tree, dict) and {"pid", "host"} <= tree.keys() <= {"pid", "host", "brief"}


def remove_passing(cache_dir: Path, top: str, kept: Collection[str] = ()) -> None:
    """Delete what we put into `parts` or `update`, and the folder; what is not ours stays, and the folder with it.

    Args:
        cache_dir: the cache, locked by the caller.
        top: `parts` or `update`.
        kept: parts that are being written.
    """
    inside = list(entries(cache_dir, top))
    # The list of a committed update goes first: without it what is left over is only dropped.
    for name, kind in sorted(inside, key=lambda one: one[0] != f"{UPDATE}/commit.json"):
        if kind == "file" and _is_ours(cache_dir, name) and Path(name).name.partition(".")[0] not in kept:
            (cache_dir / name).unlink()
    for name in [*(name for name, kind in reversed(inside) if kind == "folder"), top]:
        if is_real_folder(cache_dir / name) and not any((cache_dir / name).iterdir()):
            (cache_dir / name).rmdir()


def partial_files(cache_dir: Path) -> list[Path]:
    """What a killed run left half-written, by the names that are written here; other files are the user's."""
    tops = ("", *(name for name in FOLDERS if name != "views"))
    found = [name for top in tops for name, kind in entries(cache_dir, top, deep=bool(top)) if kind == "file"]
    return sorted(cache_dir / name for name in found if PARTIAL.fullmatch(name))


def _is_ours(cache_dir: Path, name: str) -> bool:
    """Whether a file in `parts` or `update` has a name and, where we can tell, a content of our own making."""
    if not PASSING.fullmatch(name):
        return False
    if name.startswith(f"{PARTS}/") and not name.endswith(".tmp"):
        return (is_lock if name.endswith(".lock") else names_a_process)(cache_dir / name)
    return True
