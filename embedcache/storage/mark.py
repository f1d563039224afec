"""Recognising a folder as a cache by its readable cache.json; nothing is deleted in other folders."""

from pathlib import Path

from frostbench.embedcache.outputs.leftovers import remove_abandoned
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.storage.own import is_plain, partial_files
from frostbench.embedcache.storage.staging import committed_names, is_committed, staged
from frostbench.embedcache.storage.state import read_cache


def is_cache(cache_dir: Path) -> bool:
    """Return whether a folder contains a valid cache.json, or a committed update that is about to put one there."""
    if is_committed(cache_dir) and _is_described(staged(cache_dir)):
        return "cache.json" in committed_names(cache_dir)
    return _is_described(cache_dir)


def remove_partial(cache_dir: Path) -> None:
    """Delete half-written files of a killed run, if the folder is a cache."""
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
