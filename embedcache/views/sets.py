"""View sets: the vectors of views, kept in `CACHE/views/NAME` as a cache of their own, and who shows what."""

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
"""Written last: without it a view set is unfinished."""
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
    """Views that were embedded.

    Attributes:
        name: of the set.
        table: their rows; ids are their own, labels and groups those of their images.
        rows: row of each view's image in the table of the cache, int64 [V].
        numbers: of each view among those of its image, int64 [V].
        partner_labels: index of the class that shares the label, int64 [V]; -1 where none does.
        shares: of the label that is the image's own, float32 [V].
        about: the policy with its settings, seed, number of views, role and the split they were made for.
    """

    name: str
    table: FeatureTable
    rows: np.ndarray
    numbers: np.ndarray
    partner_labels: np.ndarray
    shares: np.ndarray
    about: Mapping[str, Any]


def views_folder(cache_dir: Path, name: str) -> Path:
    """Where a view set lies.

    Raises:
        ValueError: the name is no file name.
    """
    if NAME.fullmatch(name) is None:
        raise ValueError(
            f"view sets have names of letters, digits, dot, dash and underscore, however: {name!r} came. Rename it."
        )
    return cache_dir / "views" / name


def fingerprint(cache_dir: Path, name: str) -> str:
    """SHA-256 of a finished view set: its rows with their vectors' recipes, and who shows what.

    Raises:
        CacheError: there is no such set, or it is damaged.
    """
    folder = finished_set(cache_dir, name)
    manifest = read_state(folder)[1]
    return hashlib.sha256(f"{manifest['content_hash']} {file_sha256(folder / FILE)}".encode()).hexdigest()


def finished_set(cache_dir: Path, name: str) -> Path:
    """The folder of a finished view set.

    Raises:
        CacheError: there is none.
    """
    folder = views_folder(cache_dir, name)
    if not (folder / FILE).is_file():
        raise CacheError(
            f"a view set must be finished, however: {cache_dir} has none called {name!r}; it has "
            f"{list_views(cache_dir)}. Make it: frostbench views make {cache_dir} {name} --policy POLICY."
        )
    return folder


def count_views(cache_dir: Path, name: str) -> int:
    """How many views a finished set has, without reading them.

    Raises:
        CacheError: there is no such set, or it is damaged.
    """
    path = finished_set(cache_dir, name) / FILE
    with reading(path):
        return int(pq.read_metadata(path).num_rows)


def list_views(cache_dir: Path) -> list[str]:
    """The names of the finished view sets of a cache, sorted."""
    return sorted(path.parent.name for path in (cache_dir / "views").glob(f"*/{FILE}"))


def view_roles(cache_dir: Path) -> dict[str, str]:
    """The finished view sets of a cache by name, and whether each is for train or eval.

    One that cannot be read is left out, so that it is not in the way of the others; whoever names it is told why.
    """
    found = {}
    for name in list_views(cache_dir):
        with suppress(CacheError):
            found[name] = str(read_state(views_folder(cache_dir, name))[0]["source"]["role"])
    return found


def read_views(cache_dir: Path, name: str, table: FeatureTable, stored: bool = False) -> ViewSet:
    """A finished view set of a cache.

    Args:
        cache_dir: the cache.
        name: of the set.
        table: the cache's rows, of which these are views.
        stored: leave the vectors on disk.

    Raises:
        CacheError: there is no such set, it is unfinished or damaged, the cache has changed since it was made, or its
            views show other pictures or are of other recipes than the cache's rows.
    """
    folder = finished_set(cache_dir, name)
    path = folder / FILE
    own = read_table(folder, sorted(table.recipes.keys() - table.tokens.keys()), stored=stored)
    about = read_state(folder)[0]["source"]
    with reading(path):
        rows = pq.read_table(path, schema=SCHEMA).to_pydict()
    if about["content_hash"] != table.content_hash:
        raise CacheError(
            f"views must be of the cache's rows, however: {cache_dir} has changed since {name!r} was made. Delete "
            f"{folder} and make it again."
        )
    place = {one: row for row, one in enumerate(table.ids.tolist())}
    by_id = {one: row for row, one in enumerate(rows["id"])}
    order = [by_id[one] for one in own.ids.tolist()]
    of = np.array([place[rows["view_of"][i]] for i in order], np.int64)
    _check_pictures(own, table, of, folder)
    index = {label: number for number, label in enumerate(table.class_names)} | {None: -1}
    return ViewSet(
        name=name,
        table=own,
        rows=of,
        numbers=np.array([rows["number"][i] for i in order], np.int64),
        partner_labels=np.array([index[rows["partner_label"][i]] for i in order], np.int64),
        shares=np.array([rows["share"][i] for i in order], np.float32),
        about=about,
    )


def _check_pictures(own: FeatureTable, table: FeatureTable, rows: np.ndarray, folder: Path) -> None:
    """Refuse views of other pictures, or of another recipe, than the rows [V] of the table that they are views of.

    Raises:
        CacheError: there is one.
    """
    again = f"Delete {folder} and make it again."
    for name, recipe in own.recipes.items():
        if recipe.model_copy(update={"view": table.recipes[name].view}).hash != table.recipes[name].hash:
            raise CacheError(
                f"views have the recipe of their cache, however: column {name!r} of {folder} was embedded by another. "
                f"{again}"
            )
    other = own.content != table.content[rows]
    if other.any():
        raise CacheError(
            f"views are of the pictures that were embedded, however: {int(other.sum())} of {len(rows)} views of "
            f"{folder.name!r} were made of files that had other bytes, the first of {table.ids[rows[other][0]]!r}. "
            f"{again}"
        )
