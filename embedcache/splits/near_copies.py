"""Near-copies of a split: images that look the same to a backbone, which must not be on both of its sides."""

from pathlib import Path

import numpy as np

from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.table import FeatureTable, read_state, read_table


def with_near_copies(groups: np.ndarray, near: np.ndarray, threshold: float) -> tuple[np.ndarray, str]:
    """Groups [N] joined where they share near-copies [N], and a sentence that says how many those are."""
    from frostbench.embedcache.index.groups import joined_groups

    counts = np.unique(near, return_counts=True)[1]
    several = counts[counts > 1]
    note = (
        f"Images with a cosine of {threshold:g} and more are kept on one side: {len(several)} groups of copies and "
        f"near-copies with {several.sum()} rows."
    )
    return joined_groups(groups, near), note


def near_column(cache_dir: Path) -> tuple[str, str]:
    """The column by which near-copies are found, with its recipe: the same one, whatever columns a table was read with.

    Raises:
        CacheError: the cache holds tokens only.
    """
    columns = read_state(cache_dir)[0]["columns"]
    plain = sorted(name for name, column in columns.items() if column.get("tokens") is None)
    if not plain:
        raise CacheError(
            "near-copies are found in a column with one vector for each image, however: this cache has "
            f"{sorted(columns)}, which hold tokens. Leave `duplicates` out, or embed with a pooling such as avg."
        )
    return plain[0], columns[plain[0]]["recipe_hash"]


def near_in_cache(cache_dir: Path, table: FeatureTable, threshold: float) -> np.ndarray:
    """The group of copies and near-copies of each row of a cache [N], whose vectors are read from disk.

    Raises:
        CacheError: the table has other rows than the cache.
    """
    from frostbench.embedcache.index.groups import near_groups

    whole = read_table(cache_dir, [near_column(cache_dir)[0]], stored=True)
    if whole.ids.tolist() != table.ids.tolist():
        raise CacheError(f"a split is one of all rows of its cache, however: {cache_dir} has others. Read it again.")
    return near_groups(whole, threshold)
