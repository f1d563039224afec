"""Tables of caches, read once and again only when a cache has changed."""

from functools import lru_cache
from pathlib import Path

from frostbench.embedcache.table import FeatureTable, read_table

MOST_KEPT = 4


def table_of(folder: Path) -> FeatureTable:
    """Return the table of a finished cache, with its vectors on disk.

    Raises:
        CacheError: the cache is unfinished or damaged.
    """
    return _table(folder, written(folder))


def written(folder: Path) -> int:
    """Return when a cache was finished or changed, in nanoseconds; 0 if it is unfinished."""
    manifest = folder / "manifest.json"
    return manifest.stat().st_mtime_ns if manifest.is_file() else 0


@lru_cache(maxsize=MOST_KEPT)
def _table(folder: Path, _written: int) -> FeatureTable:
    return read_table(folder, stored=True)
