"""Finds the stored split of a finished run by its hash."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from frostbench.embedcache.splits.files import SPLIT_KEY
from frostbench.embedcache.splits.making import Split, load_split
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.embedcache.storage.damage import reading
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.table import FeatureTable


def split_with_hash(cache_dir: Path, table: FeatureTable, wanted: str, store: Path | None = None) -> Split:
    """Return the stored split of a table that has this hash.

    Args:
        cache_dir: the cache.
        table: its rows.
        wanted: hash of the split, as a run's record states it.
        store: run store, which holds the splits of caches that are not writable.

    Raises:
        CacheError: no stored split has this hash, or the file is damaged.
    """
    return load_split(_find(cache_dir, wanted, store)[0], table)


def settings_of_split(cache_dir: Path, wanted: str, store: Path | None = None) -> SplitSpec:
    """Return the settings of the stored split that has this hash; arguments and errors as in `split_with_hash`."""
    facts = _find(cache_dir, wanted, store)[1]
    return SplitSpec.model_validate(facts["spec"])


def _find(cache_dir: Path, wanted: str, store: Path | None) -> tuple[Path, dict[str, Any]]:
    """Return the file of a stored split and what it states."""
    for folder in (cache_dir, *(() if store is None else (store,))):
        for path in sorted((folder / "splits").glob("*.parquet")):
            with reading(path):
                facts = json.loads((pq.read_schema(path).metadata or {}).get(SPLIT_KEY, b"{}"))
            if facts.get("hash") == wanted:
                return path, facts
    raise CacheError(
        f"The split of a run must be stored in its cache, but {cache_dir / 'splits'} has none with the hash {wanted}. "
        "Train the run again."
    )
