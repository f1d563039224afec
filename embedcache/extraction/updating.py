"""Bringing a cache to another listing: rows stay where they are, and nothing is embedded here."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from frostbench.embedcache.extraction.reopening import drop_damaged
from frostbench.embedcache.items import Item, Listing
from frostbench.embedcache.storage.damage import reading
from frostbench.embedcache.storage.files import CacheError, write_json
from frostbench.embedcache.storage.layout import Layout, cut, lay_out, shard_sizes
from frostbench.embedcache.storage.listing import read_items, write_items
from frostbench.embedcache.storage.merging import stage_kept
from frostbench.embedcache.storage.staging import commit, staged
from frostbench.embedcache.storage.store import FORMAT_VERSION, finished_shards

HOW = "Give the option --update (in Python update=True)"


def adopt_listing(
    cache_dir: Path, stored: Mapping[str, Any], listing: Listing, update: bool
) -> tuple[Layout, list[str]]:
    """The layout of a cache for a listing, after bringing the cache to it if that is asked for.

    Items that are listed still keep their shard and their order, new ones fill new shards behind them, and rows of
    others are taken out of their shards. What is to be embedded for it is found out later, as after any interruption.

    Args:
        cache_dir: a cache of this recipe.
        stored: its cache.json.
        listing: what it shall hold.
        update: whether it may be changed to hold that.

    Returns:
        The items by shard, and a sentence about what changed, if anything did.

    Raises:
        CacheError: the listing is another one and no update was asked for, or the stored one is damaged.
    """
    before = _stored_layout(cache_dir, stored, listing)
    told = _changes(before, stored, listing)
    if not told:
        return before, []
    if not update:
        raise CacheError(
            f"a cache is continued with the listing it was begun with, however: in {cache_dir} {'; '.join(told)}. "
            f"{HOW} to bring the cache to this listing, or use another folder."
        )
    after = plan(before, listing.items, stored["shard_rows"])
    drop_damaged(cache_dir, before)
    _stage(cache_dir, stored, listing, before, after)
    commit(cache_dir)
    return after, [f"The listing was brought up to date: {'; '.join(told)}."]


def plan(before: Layout, items: tuple[Item, ...], shard_rows: int) -> Layout:
    """Where each item lies after an update: in its old shard, or in new ones behind these."""
    wanted, known = {item.id: item for item in items}, {item.id for item in before.items}
    kept = tuple(tuple(wanted[item.id] for item in shard if item.id in wanted) for shard in before.shards)
    new = [item for item in items if item.id not in known]
    return Layout(kept + lay_out(new, cut(len(new), shard_rows)).shards)


def _stored_layout(cache_dir: Path, stored: Mapping[str, Any], listing: Listing) -> Layout:
    path = cache_dir / "items.parquet"
    if not path.exists() and "shard_sizes" not in stored:
        # The process died between its first two files.
        write_items(cache_dir, listing.items)
    with reading(path):
        items = read_items(cache_dir, known=listing.items)
    return lay_out(items, shard_sizes(stored, len(items), cache_dir))


def _changes(before: Layout, stored: Mapping[str, Any], listing: Listing) -> list[str]:
    """What is different, in words; empty where nothing is."""
    old, new = ({item.id: item for item in some} for some in (before.items, listing.items))
    told = []
    if old != new:
        added, gone = sorted(new.keys() - old.keys()), sorted(old.keys() - new.keys())
        moved = [one for one in sorted(old.keys() & new.keys()) if old[one] != new[one]]
        cases = {
            "are new": added,
            "are gone": gone,
            "have another path, label, group, split or time": moved,
        }
        told += [f"{len(ids)} images {what} {ids[:3]}" for what, ids in cases.items() if ids]
    was, now = stored.get("source", {}), listing.description
    for name in sorted(was.keys() | now.keys()):
        if was.get(name) != now.get(name):
            told.append(f"the source's {name} was {was.get(name)!r:.100} and is {now.get(name)!r:.100}")
    if stored.get("class_names") != (classes := list(listing.class_names)):
        told.append(f"the classes were {stored.get('class_names')!r:.200} and are {classes!r:.200}")
    return told


def _stage(cache_dir: Path, stored: Mapping[str, Any], listing: Listing, before: Layout, after: Layout) -> None:
    about = {"format_version": FORMAT_VERSION, "source": listing.description}
    about["class_names"] = list(listing.class_names)
    if after.sizes != cut(after.n_listed, stored["shard_rows"]):
        about["shard_sizes"] = after.sizes
    others = {name: value for name, value in stored.items() if name != "shard_sizes"}
    write_json(staged(cache_dir) / "cache.json", others | about)
    write_items(staged(cache_dir), after.items)
    for i in sorted(finished_shards(cache_dir)):
        if after.shards[i] != before.shards[i]:
            stage_kept(cache_dir, i, after.shards[i])
