"""Making view sets: planned, then embedded as a cache of their own beside the images' cache."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from frostbench.embedcache.decode import PIXEL_LIMIT, decode_bytes
from frostbench.embedcache.extraction.backbone_group import BackboneGroup, backbone_group
from frostbench.embedcache.extraction.events import Embedder, Event, Finished, Started
from frostbench.embedcache.extraction.extract import extract
from frostbench.embedcache.items import Item, Listing
from frostbench.embedcache.recipe import differences
from frostbench.embedcache.splits.making import Split
from frostbench.embedcache.storage.files import CacheError, read_json, write_parquet
from frostbench.embedcache.storage.listing import read_items
from frostbench.embedcache.storage.own import check_links
from frostbench.embedcache.storage.sealing import seal
from frostbench.embedcache.storage.state import read_state
from frostbench.embedcache.table import FeatureTable, read_table
from frostbench.embedcache.views.making import Maker
from frostbench.embedcache.views.planning import PlannedView, Role, labels_of, plan
from frostbench.embedcache.views.policy import Policy
from frostbench.embedcache.views.saliency import Saliency
from frostbench.embedcache.views.sets import FILE, SCHEMA, views_folder
from frostbench.embedcache.views.transplant import Transplant


def make_views(
    cache_dir: Path,
    name: str,
    backbone: Embedder | Mapping[str, Embedder],
    policy: Policy,
    split: Split,
    *,
    count: int = 1,
    seed: int = 0,
    role: Role = "train",
    batch: int | None = None,
    workers: int | None = None,
) -> Iterator[Event]:
    """Embed views of a cache's images; a second call continues where the first was stopped or killed.

    An image whose file has other bytes than when it was embedded has no view: its item is in the quarantine.

    Args:
        cache_dir: a finished cache made of image files.
        name: of the view set.
        backbone: with the recipes of the cache's columns.
        policy: how views are made.
        split: who trains; views to train on are of those rows alone, with partners among them.
        count: views of each image.
        seed: of all that is drawn.
        role: train, or eval for views of the other rows, which predictions are averaged over.
        batch: images in one forward pass.
        workers: decoding threads.

    Raises:
        ValueError: the backbone has other recipes, the policy does not fit, or the views cannot be planned.
        CacheError: the cache cannot be read, a folder of it is a link, or the set was begun with other settings.
    """
    if split.folds is not None:
        raise ValueError(
            "views are made for a split into fixed roles, however: this one is cross-validated, where a view of a "
            "held-out image would be trained on in other folds. Cut the split without folds."
        )
    check_links(cache_dir)
    folder = views_folder(cache_dir, name)
    if folder.is_symlink():
        raise CacheError(f"a view set must be a real folder, however: {folder} is a link. Give the set another name.")
    table, members = read_table(cache_dir, stored=True), backbone_group(backbone)
    _check_recipes(table, members)
    planned = plan(table, split.roles, policy, count, seed, role)
    every = {item.id: item for item in read_items(cache_dir)}
    items = [every[one] for one in table.ids.tolist()]
    pixel_limit = read_state(cache_dir)[0].get("pixel_limit", PIXEL_LIMIT)
    using = threading.Lock()
    maker = _maker(policy, seed, planned, items, table.content.tolist(), members, pixel_limit, using)
    about = _about(policy, split, table, count, seed, role)
    listing = Listing(tuple(_items(planned, items, table)), table.class_names, (), about)
    _check_same(folder, about)
    altered = BackboneGroup(members.members, maker, using if isinstance(policy, Transplant) else None)
    for event in extract(listing, altered, folder, batch=batch, workers=workers, pixel_limit=pixel_limit):
        if isinstance(event, Started) and event.n_done < event.n_listed:
            (folder / FILE).unlink(missing_ok=True)
        if isinstance(event, Finished):
            _write(folder, planned, table, maker, not isinstance(policy, Transplant))
        yield event


def _maker(
    policy: Policy,
    seed: int,
    planned: Sequence[PlannedView],
    items: Sequence[Item],
    content: Sequence[str],
    members: BackboneGroup,
    pixel_limit: int,
    using: threading.Lock,
) -> Maker:
    """What makes the planned views of a table's items.

    Raises:
        ValueError: the items have no files.
    """
    saliency = Saliency(next(iter(members.members.values())), policy) if isinstance(policy, Transplant) else None
    background = members.background
    if background is None or any(items[view.row].path is None for view in planned):
        raise ValueError(
            "views are made of image files, however: the vectors of this cache were imported. Make the cache by embed."
        )
    decode = partial(
        decode_bytes, background=background, pixel_limit=pixel_limit, intensity_range=members.intensity_range
    )
    return Maker(policy, seed, planned, items, content, decode, using, saliency)


def _check_same(folder: Path, about: Mapping[str, Any]) -> None:
    """Refuse to go on with a set that was begun with other settings, or of a cache that has changed since.

    Raises:
        CacheError: it was.
    """
    path = folder / "cache.json"
    if not path.is_file():
        return
    begun = read_json(path).get("source") or {}
    changed = [name for name, value in about.items() if begun.get(name) != value]
    if changed:
        told = {"content_hash": "the cache", "split": "the split"}
        raise CacheError(
            f"a view set is continued only as it was begun, however: {', '.join(told.get(n, n) for n in changed)} of "
            f"{folder} has changed since. Delete that folder and make the set again, or give it another name."
        )


def _about(policy: Policy, split: Split, table: FeatureTable, count: int, seed: int, role: Role) -> dict[str, Any]:
    """What a view set says of itself as its source."""
    made = {"kind": "views", "policy": policy.model_dump(mode="json"), "count": count, "seed": seed, "role": role}
    return made | {"split": split.hash, "content_hash": table.content_hash}


def _items(planned: Sequence[PlannedView], items: Sequence[Item], table: FeatureTable) -> Iterator[Item]:
    """The views as items, in the order in which a listing has them."""
    stated = table.groups if table.has_groups else [None] * len(table.ids)
    found = [replace(items[v.row], id=v.id, group=stated[v.row] and str(stated[v.row]), split=None) for v in planned]
    yield from sorted(found, key=lambda item: item.id)


def _check_recipes(table: FeatureTable, members: BackboneGroup) -> None:
    """Refuse a backbone that does not give the plain columns of the cache."""
    for name, recipe in table.recipes.items():
        if name not in members.recipes:
            raise ValueError(
                f"views have the columns of their cache, however: the backbone gives {list(members.recipes)} and not "
                f"{name!r}. Load it with that pooling."
            )
        found = members.recipes[name]
        if found.hash != recipe.hash:
            told = "; ".join(f"{k} is {a!r} there and {b!r} here" for k, (a, b) in differences(recipe, found).items())
            raise ValueError(
                f"views are embedded by the recipe of their cache, however: in column {name!r} {told}. Load the "
                "backbone that made the cache."
            )


def _write(folder: Path, planned: Sequence[PlannedView], table: FeatureTable, maker: Maker, is_shared: bool) -> None:
    """Write who shows what of the views that embedded; shares that a run before this one saw are found again."""
    if (folder / FILE).is_file():
        if "views_sha256" not in read_state(folder)[1]:
            seal(folder)
        return
    embedded = set(read_table(folder, stored=True).ids.tolist())
    kept = [view for view in planned if view.id in embedded]
    labels = labels_of(kept, table, is_shared)
    shares = [maker.shares[view.id] if view.id in maker.shares else maker.remake(view.id) for view in kept]
    rows = {
        "id": [view.id for view in kept],
        "view_of": [str(table.ids[view.row]) for view in kept],
        "number": [view.number for view in kept],
        "partner": [None if view.partner is None else str(table.ids[view.partner]) for view in kept],
        "partner_label": labels,
        "share": shares,
    }
    write_parquet(folder / FILE, pa.table(rows, schema=SCHEMA))
    seal(folder)
