"""Replacing several files of a cache at once: staged in its folder `update`, committed, then moved, whatever dies."""

import shutil
from pathlib import Path

from embedcache.storage.files import read_json, sync, write_json

UPDATE = "update"
COMMIT = "commit.json"


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
    names = sorted(path.relative_to(ready).as_posix() for path in ready.rglob("*") if path.is_file())
    for folder in {(ready / name).parent for name in names}:
        sync(folder)
    write_json(cache_dir / UPDATE / COMMIT, names)
    finish_update(cache_dir)


def is_committed(cache_dir: Path) -> bool:
    """Whether an update was left over that only has to be moved into place."""
    return (cache_dir / UPDATE / COMMIT).is_file()


def finish_update(cache_dir: Path) -> None:
    """Finish an update that was committed, and drop one that was not; nothing happens where there is none."""
    folder = cache_dir / UPDATE
    if is_committed(cache_dir):
        # Without a manifest the cache is unfinished, so nobody reads it while its files are of two ages.
        (cache_dir / "manifest.json").unlink(missing_ok=True)
        sync(cache_dir)
        for name in read_json(folder / COMMIT):
            _move(staged(cache_dir) / name, cache_dir / name)
    if folder.exists():
        shutil.rmtree(folder)
        sync(cache_dir)


def _move(source: Path, target: Path) -> None:
    """Move a file unless that was done before."""
    if source.exists():
        target.parent.mkdir(exist_ok=True)
        source.replace(target)
        sync(target.parent)
