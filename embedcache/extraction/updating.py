"""Update of a cache to a different listing, which keeps the position of rows and does not embed anything."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from frostbench.embedcache.counting import things
from frostbench.embedcache.extraction.reopening import drop_damaged
from frostbench.embedcache.items import Item, Listing
from frostbench.embedcache.storage.damage import reading
from frostbench.embedcache.storage.files import CacheError, write_json
from frostbench.embedcache.storage.layout import Layout, cut, lay_out, shard_sizes
from frostbench.embedcache.storage.listing import read_items, write_items
from frostbench.embedcache.storage.merging import stage_kept
from frostbench.embedcache.storage.staging import commit, staged
from frostbench.embedcache.storage.store import FORMAT_VERSION, finished_shards

HOW = "Add --update (in Python update=True)"


def adopt_listing(
    cache_dir: Path, stored: Mapping[str, Any], listing: Listing, update: bool
) -> tuple[Layout, list[str]]:
    """Return the layout of a cache for a listing, after updating the cache if requested.

    Items that are still listed keep their shard and order, new items are appended in new shards, and rows of removed
    items are deleted. Which items must be embedded is determined later, as after any interruption.

    Args:
        cache_dir: cache with the requested recipes.
        stored: content of its cache.json.
        listing: requested listing.
        update: whether the cache may be changed to this listing.

    Returns:
        The items by shard, and a note about the changes, if any.

    Raises:
        CacheError: the listing differs and `update` is not set, or the stored listing is damaged.
    """
    before = _stored_layout(cache_dir, stored, listing)
    changes = _changes(before, stored, listing)
    if not changes:
        return before, []
    if not update:
        raise CacheError(
            f"a cache must be continued with its original listing, but in {cache_dir} {'; '.join(changes)}. "
            f"{HOW} to update the cache to this listing, or use another folder."
        )
    after = plan(before, listing.items, stored["shard_rows"])
    drop_damaged(cache_dir, before)
    _stage(cache_dir, stored, listing, before, after)
    commit(cache_dir)
    return after, [f"The listing was updated: {'; '.join(changes)}."]


def plan(before: Layout, items: tuple[Item, ...], shard_rows: int) -> Layout:
    """Return the layout after an update: items stay in their shards, new items go into new shards at the end."""
    listed, known = {item.id: item for item in items}, {item.id for item in before.items}
    kept = tuple(tuple(listed[item.id] for item in shard if item.id in listed) for shard in before.shards)
    new = [item for item in items if item.id not in known]
    return Layout(kept + lay_out(new, cut(len(new), shard_rows)).shards)


def _stored_layout(cache_dir: Path, stored: Mapping[str, Any], listing: Listing) -> Layout:
    path = cache_dir / "items.parquet"
    if not path.exists() and "shard_sizes" not in stored:
        # The process was killed between writing cache.json and items.parquet.
        write_items(cache_dir, listing.items)
    with reading(path):
        items = read_items(cache_dir, known=listing.items)
    return lay_out(items, shard_sizes(stored, len(items), cache_dir))


def _changes(before: Layout, stored: Mapping[str, Any], listing: Listing) -> list[str]:
    """Return a phrase for each difference between the stored and the requested listing."""
    old, new = ({item.id: item for item in items} for items in (before.items, listing.items))
    changes = []
    if old != new:
        cases = {
            ("is", "are", "new"): sorted(new.keys() - old.keys()),
            ("is", "are", "gone"): sorted(old.keys() - new.keys()),
            ("has", "have", "another path, label, group, split or time"): [
                name for name in sorted(old.keys() & new.keys()) if old[name] != new[name]
            ],
        }
        changes += [
            f"{things(len(ids), f'image {one}', f'images {many}')} {what} {ids[:3]}"
            for (one, many, what), ids in cases.items()
            if ids
        ]
    was, now = stored.get("source", {}), listing.description
    for name in sorted(was.keys() | now.keys()):
        if was.get(name) != now.get(name):
            changes.append(f"the source's {name} was {was.get(name)!r:.100} and is {now.get(name)!r:.100}")
    if stored.get("class_names") != (classes := list(listing.class_names)):
        changes.append(f"the classes were {stored.get('class_names')!r:.200} and are {classes!r:.200}")
    return changes


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
