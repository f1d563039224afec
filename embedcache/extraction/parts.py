"""Parts of one extraction: n processes on a shared folder, of which each embeds every n-th shard."""

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
    """The shards whose number is `number` modulo `of`.

    >>> [shard for shard in range(8) if Part(1, 3).owns(shard)]
    [1, 4, 7]
    """

    number: int
    of: int

    def __str__(self) -> str:
        """As it is written on the command line."""
        return f"{self.number}/{self.of}"

    @property
    def name(self) -> str:
        """What its lock is called."""
        return f"{self.number}-of-{self.of}"

    def owns(self, shard: int) -> bool:
        """Whether a shard is of this part."""
        return shard % self.of == self.number


def as_part(number: int, of: int) -> Part:
    """Part `number` of `of`, counted from 0.

    Raises:
        ValueError: there is no such part.
    """
    if not 0 <= number < of:
        raise ValueError(
            f"a part is I/N with I from 0 to N-1, however: {number}/{of} came. The parts of an array of 3 are 0/3, "
            "1/3 and 2/3."
        )
    return Part(number, of)


def parse_part(text: str) -> Part:
    """The part that a text such as 0/3 names.

    >>> parse_part("2/8")
    Part(number=2, of=8)

    Raises:
        ValueError: it names none.
    """
    number, slash, of = text.partition("/")
    if not (slash and number.isascii() and number.isdigit() and of.isascii() and of.isdigit()):
        raise ValueError(
            f"a part is written I/N, two whole numbers, however: {text!r} came. The first of three is 0/3."
        )
    return as_part(int(number), int(of))


def open_shared(cache_dir: Path, describe: Callable[[bool], Opened]) -> Opened:
    """Begin a cache, or open the one that another part began.

    Args:
        cache_dir: the cache, of which a part is locked by the caller.
        describe: opens the cache; is told whether it may delete what killed processes left half-written.
    """
    with gate(cache_dir):
        alone = len(busy_parts(cache_dir)) == 1
        begun = (cache_dir / "cache.json").exists() and (cache_dir / "items.parquet").exists()
        if alone or not begun or (cache_dir / UPDATE).exists():
            return describe(alone)
    return describe(False)


def reopen_part(cache_dir: Path, layout: Layout, part: Part) -> tuple[list[Todo], list[str]]:
    """Delete the damaged shards of a part, and say which are to be embedded and what a person should know.

    Unlike `reopening.reopen` it does not read the images of stored shards: that is left to an extraction without parts.
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
    told = f"Shards whose files are not as they were written: {len(damaged)} ({names}). Their images are embedded anew."
    return todo, [told] if damaged else []


def finish_part(cache_dir: Path, layout: Layout) -> int:
    """Write the manifest if all shards are there and as they were written; returns how many are not.

    Those that are damaged are deleted, for the part that they belong to.
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
