"""View sets: vectors of views, stored in `CACHE/views/NAME` as a separate cache, with their image ids and labels."""

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from frostbench.embedcache.hashes import file_sha256
from frostbench.embedcache.storage.damage import reading
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.storage.state import read_state
from frostbench.embedcache.table import FeatureTable, read_table

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
FILE = "views.parquet"
"""Name of the file that is written last; without it a view set is unfinished."""
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("view_of", pa.string(), nullable=False),
        pa.field("number", pa.int32(), nullable=False),
        pa.field("partner", pa.string()),
        pa.field("partner_label", pa.string()),
        pa.field("share", pa.float32(), nullable=False),
    ]
)


@dataclass(frozen=True, eq=False)
class ViewSet:
    """Embedded views.

    Attributes:
        name: name of the set.
        table: rows of the views, with their own ids and the labels and groups of their images.
        rows: row of each view's image in the table of the cache, int64 [V].
        numbers: index of each view among those of its image, int64 [V].
        partner_labels: class index of the second label of a mixed view, int64 [V]; -1 if the view is not mixed.
        shares: share of the image's own label, float32 [V].
        about: policy with its settings, seed, number of views, role and split.
    """

    name: str
    table: FeatureTable
    rows: np.ndarray
    numbers: np.ndarray
    partner_labels: np.ndarray
    shares: np.ndarray
    about: Mapping[str, Any]


def views_folder(cache_dir: Path, name: str) -> Path:
    """Return the folder of a view set.

    Raises:
        ValueError: the name is invalid.
    """
    if NAME.fullmatch(name) is None:
        raise ValueError(
            "the name of a view set must be a letter or digit and up to 99 letters, digits, dots, dashes and "
            f"underscores, got {name!r}. Rename it."
        )
    return cache_dir / "views" / name


def fingerprint(cache_dir: Path, name: str) -> str:
    """Return the SHA-256 of a finished view set: its rows with their recipes, and views.parquet.

    Raises:
        CacheError: the set does not exist or is damaged.
    """
    folder = finished_set(cache_dir, name)
    manifest = read_state(folder)[1]
    return hashlib.sha256(f"{manifest['content_hash']} {file_sha256(folder / FILE)}".encode()).hexdigest()


def finished_set(cache_dir: Path, name: str) -> Path:
    """Return the folder of a finished view set.

    Raises:
        CacheError: the set does not exist or is unfinished.
    """
    folder = views_folder(cache_dir, name)
    if not (folder / FILE).is_file():
        raise CacheError(
            f"{cache_dir} must have a finished view set {name!r}, but has {list_views(cache_dir)}. Make it with "
            f"`frostbench views make {cache_dir} {name} --policy POLICY`."
        )
    return folder


def count_views(cache_dir: Path, name: str) -> int:
    """Return the number of views in a finished set, without reading them.

    Raises:
        CacheError: the set does not exist or is damaged.
    """
    path = finished_set(cache_dir, name) / FILE
    with reading(path):
        return int(pq.read_metadata(path).num_rows)


def list_views(cache_dir: Path) -> list[str]:
    """Return the sorted names of the finished view sets of a cache."""
    return sorted(path.parent.name for path in (cache_dir / "views").glob(f"*/{FILE}"))


def view_roles(cache_dir: Path) -> dict[str, str]:
    """Return the role, train or eval, of each finished view set of a cache by name.

    Unreadable sets are omitted, so that they do not block the others; reading one by name reports its error.
    """
    roles = {}
    for name in list_views(cache_dir):
        with suppress(CacheError):
            roles[name] = str(read_state(views_folder(cache_dir, name))[0]["source"]["role"])
    return roles


def read_views(cache_dir: Path, name: str, table: FeatureTable, stored: bool = False) -> ViewSet:
    """Read a finished view set of a cache.

    Args:
        cache_dir: cache folder.
        name: name of the set.
        table: rows of the cache, of which these are views.
        stored: whether to leave the vectors on disk.

    Raises:
        CacheError: the set does not exist, is unfinished or damaged, was made before the cache changed, or differs from
            the cache's rows in images or recipes.
    """
    folder = finished_set(cache_dir, name)
    path = folder / FILE
    views = read_table(folder, sorted(table.recipes.keys() - table.tokens.keys()), stored=stored)
    about = read_state(folder)[0]["source"]
    with reading(path):
        columns = pq.read_table(path, schema=SCHEMA).to_pydict()
    if about["content_hash"] != table.content_hash:
        raise CacheError(
            f"a view set must match its cache, but {cache_dir} has changed since {name!r} was made. Delete {folder} "
            "and make it again."
        )
    image_rows = {image_id: row for row, image_id in enumerate(table.ids.tolist())}
    by_id = {view_id: i for i, view_id in enumerate(columns["id"])}
    order = [by_id[view_id] for view_id in views.ids.tolist()]
    rows = np.array([image_rows[columns["view_of"][i]] for i in order], np.int64)
    _check_images(views, table, rows, folder)
    index = {label: number for number, label in enumerate(table.class_names)} | {None: -1}
    return ViewSet(
        name=name,
        table=views,
        rows=rows,
        numbers=np.array([columns["number"][i] for i in order], np.int64),
        partner_labels=np.array([index[columns["partner_label"][i]] for i in order], np.int64),
        shares=np.array([columns["share"][i] for i in order], np.float32),
        about=about,
    )


def _check_images(views: FeatureTable, table: FeatureTable, rows: np.ndarray, folder: Path) -> None:
    """Raise CacheError if views differ from their rows [V] of the table in the image file or the recipe."""
    again = f"Delete {folder} and make it again."
    for name, recipe in views.recipes.items():
        if recipe.model_copy(update={"view": table.recipes[name].view}).hash != table.recipes[name].hash:
            raise CacheError(
                f"views must have the recipe of their cache, but column {name!r} of {folder} has another. {again}"
            )
    changed = views.content != table.content[rows]
    if count := int(changed.sum()):
        raise CacheError(
            f"views must show the images of their cache, but {count} of {len(rows)} views of "
            f"{folder.name!r} {'was' if count == 1 else 'were'} made from changed files, the first of "
            f"{table.ids[rows[changed][0]]!r}. {again}"
        )
