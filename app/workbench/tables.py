"""Tables of caches, read once and again only when a cache has changed."""

from functools import lru_cache
from pathlib import Path

from frostbench.embedcache.table import FeatureTable, read_table, rows_where

MOST_KEPT = 4


def table_of(folder: Path) -> FeatureTable:
    """Return the labelled rows of a finished cache, with their vectors on disk.

    Raises:
        CacheError: the cache is unfinished or damaged.
    """
    return _table(folder, written(folder))


def whole_table_of(folder: Path) -> FeatureTable:
    """Return all rows of a finished cache, those without a label too, with their vectors on disk.

    Raises:
        CacheError: the cache is unfinished or damaged.
    """
    return _whole(folder, written(folder))


def written(folder: Path) -> int:
    """Return when a cache was finished or changed, in nanoseconds; 0 if it is unfinished."""
    manifest = folder / "manifest.json"
    return manifest.stat().st_mtime_ns if manifest.is_file() else 0


@lru_cache(maxsize=MOST_KEPT)
def _table(folder: Path, at: int) -> FeatureTable:
    whole = _whole(folder, at)
    has_label = whole.labels >= 0
    return whole if has_label.all() else rows_where(whole, has_label)


@lru_cache(maxsize=MOST_KEPT)
def _whole(folder: Path, _written: int) -> FeatureTable:
    return read_table(folder, stored=True, unlabelled=True)
