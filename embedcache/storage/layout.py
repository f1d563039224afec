"""Assignment of listed items to shards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from frostbench.embedcache.items import Item
from frostbench.embedcache.storage.files import CacheError


def cut(n: int, shard_rows: int) -> list[int]:
    """Return the shard sizes of a new cache with n items.

    >>> cut(7, 3)
    [3, 3, 1]
    """
    return [min(shard_rows, n - start) for start in range(0, n, shard_rows)]


def shard_sizes(cache: Mapping[str, Any], n_listed: int, cache_dir: Path) -> list[int]:
    """Return the number of listed items per shard, as stated in cache.json.

    Raises:
        CacheError: the sizes do not add up to n_listed.
    """
    sizes: list[int] = cache.get("shard_sizes", cut(n_listed, cache["shard_rows"]))
    if sum(sizes) != n_listed:
        raise CacheError(
            f"The shard_sizes in cache.json must add up to the {n_listed} listed items, but those of {cache_dir} "
            f"add up to {sum(sizes)}. If cache.json or items.parquet was edited, restore it."
        )
    return sizes


def bounds(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Return the range [start, stop) of listing rows of each shard.

    >>> bounds([3, 0, 2])
    [(0, 3), (3, 3), (3, 5)]
    """
    return list(pairwise(accumulate(sizes, initial=0)))


@dataclass(frozen=True)
class Layout:
    """Items of a cache in stored order, by shard."""

    shards: tuple[tuple[Item, ...], ...]

    @property
    def items(self) -> tuple[Item, ...]:
        """All items, in the order of items.parquet."""
        return tuple(item for shard in self.shards for item in shard)

    @property
    def sizes(self) -> list[int]:
        """Number of listed items per shard."""
        return [len(shard) for shard in self.shards]

    @property
    def n_listed(self) -> int:
        """Total number of listed items."""
        return sum(self.sizes)


def lay_out(items: Sequence[Item], sizes: Sequence[int]) -> Layout:
    """Divide items in stored order into shards of the given sizes."""
    return Layout(tuple(tuple(items[start:stop]) for start, stop in bounds(sizes)))
