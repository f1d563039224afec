"""Near-duplicates, images that look the same to a backbone, which a split must not divide."""

from pathlib import Path

import numpy as np

from frostbench.embedcache.counting import things
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.table import FeatureTable, read_state, read_table


def with_near_copies(groups: np.ndarray, near: np.ndarray, threshold: float) -> tuple[np.ndarray, str]:
    """Merge groups [N] that share a group of near-duplicates [N], and return a note about the near-duplicates."""
    from frostbench.embedcache.index.groups import joined_groups

    counts = np.unique(near, return_counts=True)[1]
    several = counts[counts > 1]
    note = (
        f"Images with a cosine of at least {threshold:g} stay together: "
        f"{things(len(several), 'group', 'groups')} of near-duplicates with {several.sum()} rows."
    )
    return joined_groups(groups, near), note


def near_column(cache_dir: Path) -> tuple[str, str]:
    """Return the column used to find near-duplicates, and its recipe; it does not depend on the columns read.

    Raises:
        CacheError: the cache holds tokens only.
    """
    columns = read_state(cache_dir)[0]["columns"]
    plain = sorted(name for name, column in columns.items() if column.get("tokens") is None)
    if not plain:
        raise CacheError(
            "Finding near-duplicates needs a column with one vector per image, but this cache has only token columns "
            f"({sorted(columns)}). Leave out `duplicates`, or embed with a pooling such as avg."
        )
    return plain[0], columns[plain[0]]["recipe_hash"]


def near_in_cache(cache_dir: Path, table: FeatureTable, threshold: float) -> np.ndarray:
    """Return the group of near-duplicates of each row of a cache [N], reading its vectors from disk.

    Raises:
        CacheError: the table has other rows than the cache, with or without those that have no label.
    """
    from frostbench.embedcache.index.groups import near_groups

    has_unlabelled = bool((table.labels < 0).any())
    whole = read_table(cache_dir, [near_column(cache_dir)[0]], stored=True, unlabelled=has_unlabelled)
    if whole.ids.tolist() != table.ids.tolist():
        raise CacheError(f"A split must have the rows of its cache, but {cache_dir} has others. Read the table again.")
    return near_groups(whole, threshold)
