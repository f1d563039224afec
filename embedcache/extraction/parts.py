"""Division of an extraction into parts: n processes share a folder, and each embeds every n-th shard."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from frostbench.embedcache.extraction.reopening import Todo, drop_damaged, drop_shard, find_damaged
from frostbench.embedcache.storage.layout import Layout
from frostbench.embedcache.storage.locking import busy_parts, gate
from frostbench.embedcache.storage.mark import remove_partial
from frostbench.embedcache.storage.own import UPDATE
from frostbench.embedcache.storage.store import finished_shards, shard_name, write_manifest

Opened = TypeVar("Opened")


class Part(NamedTuple):
    """Part of an extraction: the shards whose index is `number` modulo `of`.

    >>> [shard for shard in range(8) if Part(1, 3).owns(shard)]
    [1, 4, 7]
    """

    number: int
    of: int

    def __str__(self) -> str:
        """Return the part in the form of the command line."""
        return f"{self.number}/{self.of}"

    @property
    def name(self) -> str:
        """Name of its lock."""
        return f"{self.number}-of-{self.of}"

    def owns(self, shard: int) -> bool:
        """Return whether a shard belongs to this part."""
        return shard % self.of == self.number


def as_part(number: int, of: int) -> Part:
    """Return part `number` of `of`, counted from 0.

    Raises:
        ValueError: the part does not exist.
    """
    if not 0 <= number < of:
        raise ValueError(
            f"a part must be I/N with I from 0 to N-1, got {number}/{of}. The parts of three are 0/3, 1/3 and 2/3."
        )
    return Part(number, of)


def parse_part(text: str) -> Part:
    """Parse a part such as 0/3.

    >>> parse_part("2/8")
    Part(number=2, of=8)

    Raises:
        ValueError: the text is not a part.
    """
    number, slash, of = text.partition("/")
    if not (slash and number.isascii() and number.isdigit() and of.isascii() and of.isdigit()):
        raise ValueError(
            f"a part must be written as I/N with two whole numbers, got {text!r}. The parts of three are 0/3, 1/3 and "
            "2/3."
        )
    return as_part(int(number), int(of))


def open_shared(cache_dir: Path, describe: Callable[[bool], Opened]) -> Opened:
    """Create a cache, or open the one created by another part.

    Args:
        cache_dir: cache folder, in which the caller has locked a part.
        describe: function that opens the cache; its argument is whether it may delete partial files.
    """
    with gate(cache_dir):
        is_alone = len(busy_parts(cache_dir)) == 1
        is_created = (cache_dir / "cache.json").exists() and (cache_dir / "items.parquet").exists()
        if is_alone or not is_created or (cache_dir / UPDATE).exists():
            return describe(is_alone)
    return describe(False)


def reopen_part(cache_dir: Path, layout: Layout, part: Part) -> tuple[list[Todo], list[str]]:
    """Delete the damaged shards of a part, and return the shards to embed and a note about damage, if any.

    Unlike `reopening.reopen`, this does not read the images of stored shards, which only an extraction without parts
    does.
    """
    damaged = find_damaged(cache_dir, layout, part.owns)
    finished = finished_shards(cache_dir) - set(damaged)
    todo = [
        Todo(i, listed, listed, is_stored=False)
        for i, listed in enumerate(layout.shards)
        if part.owns(i) and i not in finished
    ]
    if todo or damaged:
        with gate(cache_dir):
            (cache_dir / "manifest.json").unlink(missing_ok=True)
            for i in damaged:
                drop_shard(cache_dir, i)
    names = ", ".join(shard_name(i) for i in damaged[:3])
    note = f"Damaged shards: {len(damaged)} ({names}). Their images are embedded again."
    return todo, [note] if damaged else []


def finish_part(cache_dir: Path, layout: Layout) -> int:
    """Write the manifest if all shards are on disk and intact, and return the number of shards that are not.

    Damaged shards are deleted, so that their part embeds them again.
    """
    with gate(cache_dir):
        left = len(set(range(len(layout.shards))) - finished_shards(cache_dir))
        if left or (cache_dir / "manifest.json").exists():
            return left
        if damaged := drop_damaged(cache_dir, layout):
            return len(damaged)
        if len(busy_parts(cache_dir)) == 1:
            remove_partial(cache_dir)
        write_manifest(cache_dir)
        return 0
