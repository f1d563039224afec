"""Which items of the listing lie in which shard."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from frostbench.embedcache.items import Item
from frostbench.embedcache.storage.files import CacheError


def cut(n: int, shard_rows: int) -> list[int]:
    """The sizes of the shards of n items in a cache that was made at once.

    >>> cut(7, 3)
    [3, 3, 1]
    """
    return [min(shard_rows, n - start) for start in range(0, n, shard_rows)]


def shard_sizes(cache: Mapping[str, Any], n_listed: int, cache_dir: Path) -> list[int]:
    """How many listed items each shard has, as cache.json says it of n_listed items.

    Raises:
        CacheError: the sizes that it states do not add up.
    """
    sizes: list[int] = cache.get("shard_sizes", cut(n_listed, cache["shard_rows"]))
    if sum(sizes) != n_listed:
        raise CacheError(
            f"the shard_sizes of cache.json must add up to the {n_listed} listed items, however: those of {cache_dir} "
            f"add up to {sum(sizes)}. Was cache.json or items.parquet edited? Put the old file back."
        )
    return sizes


def bounds(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """The first listing row of each shard, and the row after its last.

    >>> bounds([3, 0, 2])
    [(0, 3), (3, 3), (3, 5)]
    """
    return list(pairwise(accumulate(sizes, initial=0)))


@dataclass(frozen=True)
class Layout:
    """The items of a cache in stored order, shard by shard."""

    shards: tuple[tuple[Item, ...], ...]

    @property
    def items(self) -> tuple[Item, ...]:
        """All items in order, as in items.parquet."""
        return tuple(item for shard in self.shards for item in shard)

    @property
    def sizes(self) -> list[int]:
        """Listed items of each shard."""
        return [len(shard) for shard in self.shards]

    @property
    def n_listed(self) -> int:
        """Items in all shards."""
        return sum(self.sizes)


def lay_out(items: Sequence[Item], sizes: Sequence[int]) -> Layout:
    """Items in stored order, divided into shards of these sizes."""
    return Layout(tuple(tuple(items[start:stop]) for start, stop in bounds(sizes)))
