"""The mark by which a folder is known as a cache, without which nothing in it is deleted: a whole cache.json."""

from pathlib import Path

from frostbench.embedcache.outputs.leftovers import remove_abandoned
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.storage.own import is_plain, partial_files
from frostbench.embedcache.storage.staging import committed_names, is_committed, staged
from frostbench.embedcache.storage.state import read_cache


def is_cache(cache_dir: Path) -> bool:
    """Whether a folder holds a cache.json that a cache can have, or an update that is about to put one there."""
    if is_committed(cache_dir) and _is_described(staged(cache_dir)):
        return "cache.json" in committed_names(cache_dir)
    return _is_described(cache_dir)


def remove_partial(cache_dir: Path) -> None:
    """Delete what a killed run left half-written, if the folder is a cache."""
    if is_cache(cache_dir):
        for path in partial_files(cache_dir):
            remove_abandoned(path)


def _is_described(folder: Path) -> bool:
    if not is_plain(folder / "cache.json"):
        return False
    try:
        read_cache(folder / "cache.json")
    except CacheError:
        return False
    return True
