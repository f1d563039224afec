"""Replacing several files of a cache at once: staged in its folder `update`, committed, then moved, whatever dies."""

from pathlib import Path

from frostbench.embedcache.storage.files import CacheError, read_json, sync, write_json
from frostbench.embedcache.storage.own import STAGED, UPDATE, check_own, entries, is_plain, remove_passing

COMMIT = "commit.json"
_BY_HAND = "Delete {} by hand, and run the embed command again."


def staged(cache_dir: Path) -> Path:
    """The folder that holds new files of a cache under the names that they will have, until `commit`."""
    return cache_dir / UPDATE / "ready"


def scratch(cache_dir: Path) -> Path:
    """A folder for what is needed only until `commit`."""
    return cache_dir / UPDATE / "scratch"


def commit(cache_dir: Path) -> None:
    """Put every staged file into its place.

    The list of them is written first. A process that dies before it is complete leaves the old cache; one that dies
    after it leaves a cache that `finish_update` makes the new one.
    """
    ready = staged(cache_dir)
    names = sorted(name for name, kind in entries(ready) if kind == "file" and STAGED.fullmatch(name))
    for folder in {(ready / name).parent for name in names}:
        sync(folder)
    write_json(cache_dir / UPDATE / COMMIT, names)
    finish_update(cache_dir)


def is_committed(cache_dir: Path) -> bool:
    """Whether an update was left over that only has to be moved into place."""
    return is_plain(cache_dir / UPDATE / COMMIT)


def finish_update(cache_dir: Path) -> None:
    """Finish an update that was committed, and drop one that was not; nothing happens where there is none.

    Raises:
        CacheError: `update` holds files of others, or its list names what no update puts into place. Nothing was
            touched then.
    """
    if not (cache_dir / UPDATE).exists():
        return
    check_own(cache_dir)
    if is_committed(cache_dir):
        names = committed_names(cache_dir)
        # Without a manifest the cache is unfinished, so nobody reads it while its files are of two ages.
        (cache_dir / "manifest.json").unlink(missing_ok=True)
        sync(cache_dir)
        for name in names:
            _move(staged(cache_dir) / name, cache_dir / name)
    remove_passing(cache_dir, UPDATE)
    sync(cache_dir)


def committed_names(cache_dir: Path) -> list[str]:
    """The files that a committed update puts into place, each a name of our own making inside the cache.

    Raises:
        CacheError: the list holds anything else.
    """
    path = cache_dir / UPDATE / COMMIT
    names = read_json(path)
    if not isinstance(names, list):
        raise CacheError(f"{path} must hold a list of files, however: it does not. {_BY_HAND.format(path.parent)}")
    odd = next((name for name in names if not (isinstance(name, str) and STAGED.fullmatch(name))), None)
    if odd is not None:
        raise CacheError(
            f"an update puts files of a cache into place, however: {path} names {odd!r:.200}. Was it edited? "
            f"{_BY_HAND.format(path.parent)}"
        )
    return names


def _move(source: Path, target: Path) -> None:
    """Move a file unless that was done before."""
    if source.exists():
        target.parent.mkdir(exist_ok=True)
        source.replace(target)
        sync(target.parent)
