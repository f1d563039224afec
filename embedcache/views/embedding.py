"""Creation of view sets: views are planned, then embedded as a separate cache inside that of the images."""

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
    backbone: Embedder | Mapping[str, Embedder] | BackboneGroup,
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

    Views of an image whose file changed since it was embedded are quarantined.

    Args:
        cache_dir: finished cache made from image files.
        name: name of the view set.
        backbone: backbone with the recipes of the cache's columns.
        policy: policy that makes the views.
        split: split into roles; views to train on, and their partners, come from training rows only.
        count: number of views of each image.
        seed: seed of all random numbers.
        role: train, or eval for views of the other rows, whose predictions are averaged.
        batch: number of images in one forward pass.
        workers: number of decoding threads.

    Raises:
        ValueError: the backbone has other recipes, the policy is not suitable, or the views cannot be planned.
        CacheError: the cache cannot be read, one of its folders is a link, or the set exists with other settings.
    """
    folder = _folder(cache_dir, name, split)
    table, backbones = read_table(cache_dir, stored=True), backbone_group(backbone)
    _check_recipes(table, backbones)
    planned = plan(table, split.roles, policy, count, seed, role)
    listed = {item.id: item for item in read_items(cache_dir)}
    items = [listed[name] for name in table.ids.tolist()]
    pixel_limit = read_state(cache_dir)[0].get("pixel_limit", PIXEL_LIMIT)
    using = threading.Lock()
    maker = _maker(policy, seed, planned, items, table.content.tolist(), backbones, pixel_limit, using)
    about = _about(policy, split, table, count, seed, role)
    listing = Listing(tuple(_items(planned, items, table)), table.class_names, (), about)
    _check_same(folder, about)
    altered = BackboneGroup(backbones.members, maker, using if isinstance(policy, Transplant) else None)
    for event in extract(listing, altered, folder, batch=batch, workers=workers, pixel_limit=pixel_limit):
        if isinstance(event, Started) and event.n_done < event.n_listed:
            (folder / FILE).unlink(missing_ok=True)
        if isinstance(event, Finished):
            _write(folder, planned, table, maker, not isinstance(policy, Transplant))
        yield event


def _folder(cache_dir: Path, name: str, split: Split) -> Path:
    """Return the folder of a new or unfinished view set; refuse cross-validated splits and links."""
    if split.folds is not None:
        raise ValueError(
            "views require a split into fixed roles, but this one is cross-validated, so a view of a held-out image "
            "would be trained on in other folds. Make the split without folds."
        )
    check_links(cache_dir)
    folder = views_folder(cache_dir, name)
    if folder.is_symlink():
        raise CacheError(f"a view set must be a real folder, but {folder} is a link. Choose another name for the set.")
    return folder


def _maker(
    policy: Policy,
    seed: int,
    planned: Sequence[PlannedView],
    items: Sequence[Item],
    content: Sequence[str],
    backbones: BackboneGroup,
    pixel_limit: int,
    using: threading.Lock,
) -> Maker:
    """Build the maker of the planned views; raise ValueError if the items have no files."""
    saliency = Saliency(next(iter(backbones.members.values())), policy) if isinstance(policy, Transplant) else None
    background = backbones.background
    if background is None or any(items[view.row].path is None for view in planned):
        raise ValueError(
            "views require image files, but the vectors of this cache were imported. Create the cache with "
            "`frostbench embed`."
        )
    decode = partial(
        decode_bytes, background=background, pixel_limit=pixel_limit, intensity_range=backbones.intensity_range
    )
    return Maker(policy, seed, planned, items, content, decode, using, saliency)


def _check_same(folder: Path, about: Mapping[str, Any]) -> None:
    """Raise CacheError if the set exists with other settings, or the cache has changed since."""
    path = folder / "cache.json"
    if not path.is_file():
        return
    stored = read_json(path).get("source") or {}
    changed = [name for name, value in about.items() if stored.get(name) != value]
    if changed:
        labels = {"content_hash": "the cache", "split": "the split"}
        names = ", ".join(labels.get(name, name) for name in changed)
        raise CacheError(
            f"a view set must be continued with its original settings, but {folder} was made with another value of: "
            f"{names}. Delete that folder and make the set again, or choose another name."
        )


def _about(policy: Policy, split: Split, table: FeatureTable, count: int, seed: int, role: Role) -> dict[str, Any]:
    """Return the description of a view set that is stored as its source."""
    settings = {"kind": "views", "policy": policy.model_dump(mode="json"), "count": count, "seed": seed, "role": role}
    return settings | {"split": split.hash, "content_hash": table.content_hash}


def _items(planned: Sequence[PlannedView], items: Sequence[Item], table: FeatureTable) -> Iterator[Item]:
    """Yield the views as items, sorted by id."""
    groups = table.groups if table.has_groups else [None] * len(table.ids)
    views = [replace(items[v.row], id=v.id, group=groups[v.row] and str(groups[v.row]), split=None) for v in planned]
    yield from sorted(views, key=lambda item: item.id)


def _check_recipes(table: FeatureTable, backbones: BackboneGroup) -> None:
    """Raise ValueError unless the backbones give the columns of the cache, without tokens."""
    for name, recipe in table.recipes.items():
        if name not in backbones.recipes:
            raise ValueError(
                f"views must have the columns of their cache, but the backbone gives {list(backbones.recipes)} and not "
                f"{name!r}. Load it with the pooling of that column."
            )
        loaded = backbones.recipes[name]
        if loaded.hash != recipe.hash:
            changes = "; ".join(f"{k} was {a!r} and is {b!r}" for k, (a, b) in differences(recipe, loaded).items())
            raise ValueError(
                f"views must have the recipe of their cache, but in column {name!r} {changes}. Load the backbone of "
                "the cache."
            )


def _write(folder: Path, planned: Sequence[PlannedView], table: FeatureTable, maker: Maker, is_shared: bool) -> None:
    """Write the image, partner and share of each embedded view; shares from previous runs are computed again."""
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
