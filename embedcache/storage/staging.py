"""Crash-safe replacement of several cache files: stage them in `update`, commit, then move them into place."""

from pathlib import Path

from frostbench.embedcache.storage.files import CacheError, read_json, sync, write_json
from frostbench.embedcache.storage.own import STAGED, UPDATE, check_own, entries, is_plain, remove_passing

COMMIT = "commit.json"
_BY_HAND = "Delete {} by hand, and run the embed command again."


def staged(cache_dir: Path) -> Path:
    """Return the staging folder, in which new files have their final names until `commit` moves them into place."""
    return cache_dir / UPDATE / "ready"


def scratch(cache_dir: Path) -> Path:
    """Return a folder for temporary files that are needed until `commit`."""
    return cache_dir / UPDATE / "scratch"


def commit(cache_dir: Path) -> None:
    """Move all staged files into place.

    A list of them is written first. If the process dies before the list is complete, the old cache remains; if it dies
    later, `finish_update` completes the update.
    """
    ready = staged(cache_dir)
    names = sorted(name for name, kind in entries(ready) if kind == "file" and STAGED.fullmatch(name))
    for folder in {(ready / name).parent for name in names}:
        sync(folder)
    write_json(cache_dir / UPDATE / COMMIT, names)
    finish_update(cache_dir)


def is_committed(cache_dir: Path) -> bool:
    """Return whether there is a committed update that only has to be moved into place."""
    return is_plain(cache_dir / UPDATE / COMMIT)


def finish_update(cache_dir: Path) -> None:
    """Finish a committed update, or discard an uncommitted one, if there is any.

    Raises:
        CacheError: `update` contains foreign files, or its list names files that no update writes. In that case nothing
            was touched.
    """
    if not (cache_dir / UPDATE).exists():
        return
    check_own(cache_dir)
    if is_committed(cache_dir):
        names = committed_names(cache_dir)
        # Without a manifest the cache is incomplete, so nobody reads it while it mixes old and new files.
        (cache_dir / "manifest.json").unlink(missing_ok=True)
        sync(cache_dir)
        for name in names:
            _move(staged(cache_dir) / name, cache_dir / name)
    remove_passing(cache_dir, UPDATE)
    sync(cache_dir)


def committed_names(cache_dir: Path) -> list[str]:
    """Return the files that a committed update moves into place; each is a known name inside the cache.

    Raises:
        CacheError: the list contains anything else.
    """
    path = cache_dir / UPDATE / COMMIT
    names = read_json(path)
    if not isinstance(names, list):
        raise CacheError(f"{path} must be a JSON list of file names, but is not. {_BY_HAND.format(path.parent)}")
    odd = next((name for name in names if not (isinstance(name, str) and STAGED.fullmatch(name))), None)
    if odd is not None:
        raise CacheError(
            f"An update moves only files of a cache into place, but {path} names {odd!r:.200}. Was it edited? "
            f"{_BY_HAND.format(path.parent)}"
        )
    return names


def _move(source: Path, target: Path) -> None:
    """Move a file unless it was moved already."""
    if source.exists():
        target.parent.mkdir(exist_ok=True)
        source.replace(target)
        sync(target.parent)
