"""Tables of nearest rows, for given rows, image files, or all rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from frostbench.embedcache.index.images import embed_images
from frostbench.embedcache.index.rows import Numbers, UnitRows, Vectors, column_of
from frostbench.embedcache.index.search import Found, Method, nearest
from frostbench.embedcache.items import escape_name
from frostbench.embedcache.table import FeatureTable


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Nearest rows of each query.

    Attributes:
        column: vector column that was compared.
        rows: one line per query and neighbour: id (or the image's path), label (empty for images), rank from 1,
            neighbour, neighbour_label, cosine.
        method: exact or ivf.
        recall: share of a sample's exact neighbours that were found; 1 for exact search.
    """

    column: str
    rows: pd.DataFrame
    method: str
    recall: float

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for the user."""
        if self.method == "exact":
            return ()
        return (f"The search was approximate: it finds {self.recall:.1%} of the neighbours of a sample.",)


def neighbours(
    table: FeatureTable,
    k: int = 10,
    *,
    ids: Sequence[str] | None = None,
    column: str | None = None,
    method: Method = "auto",
) -> Neighbours:
    """Find the k nearest rows of the rows with these ids, or of all rows, excluding the row itself.

    Raises:
        ValueError: an id is not in the table, there are fewer than k other rows, or there is no such column.
    """
    name, vectors = column_of(table, column)
    own = np.arange(len(table.ids)) if ids is None else _places(table, ids)
    rising, back = np.unique(own, return_inverse=True)
    found = nearest(vectors.only(rising), vectors, k, own=rising, method=method)
    found = Found(found.cosine[back], found.rows[back], found.method, found.recall)
    labels = table.label_names[own].astype(str)
    return Neighbours(name, _frame(table, table.ids[own], labels, found), found.method, found.recall)


def nearest_among(
    table: FeatureTable, image: str, among: npt.NDArray[np.bool_], k: int, *, column: str | None = None
) -> tuple[Numbers, Vectors]:
    """Find the k nearest of some rows to one row: their row numbers [k] and cosines [k], the nearest first.

    Args:
        table: in memory or on disk.
        image: id of the row, which is never its own neighbour.
        among: bool [N], the rows that may be found; if they are fewer than k, all of them are returned.
        k: number of rows.
        column: vector column; default: the first by name.

    Raises:
        ValueError: the id is not in the table, no other row may be found, or there is no such column.
    """
    vectors = column_of(table, column)[1]
    own = _places(table, [image])
    rows = np.flatnonzero(among & (np.arange(len(table.ids)) != own[0]))
    found = nearest(vectors.only(own), vectors.only(rows), max(1, min(k, len(rows))))
    return rows[found.rows[0]], found.cosine[0]


def image_neighbours(
    table: FeatureTable,
    images: Sequence[Path],
    k: int = 10,
    *,
    column: str | None = None,
    weights: Path | None = None,
    device: str = "cpu",
    method: Method = "auto",
) -> Neighbours:
    """Find the k nearest rows of image files, embedded with the column's recipe.

    Raises:
        ValueError: an image cannot be decoded, the column's backbone cannot be rebuilt here, there are fewer than k
            rows, or there is no such column.
    """
    name, vectors = column_of(table, column)
    queries = UnitRows(embed_images(name, table.recipes[name], images, weights=weights, device=device))
    found = nearest(queries, vectors, k, method=method)
    names = np.array([escape_name(str(path)) for path in images])
    return Neighbours(name, _frame(table, names, np.full(len(images), ""), found), found.method, found.recall)


def _places(table: FeatureTable, ids: Sequence[str]) -> Numbers:
    row_of = {one: row for row, one in enumerate(table.ids.tolist())}
    lost = [one for one in ids if one not in row_of]
    if lost or not ids:
        raise ValueError(
            f"Ids must be those of this table, such as {table.ids[:3].tolist()}, got {lost[:3] or 'no id'}. Correct "
            "the id, or use `--image` for a file that is not in the table."
        )
    return np.array([row_of[one] for one in ids], dtype=np.int64)


def _frame(table: FeatureTable, ids: np.ndarray, labels: np.ndarray, found: Found) -> pd.DataFrame:
    queries, k = found.rows.shape
    there = found.rows.ravel() >= 0
    rows, each = found.rows.ravel()[there], np.repeat(np.arange(queries), k)[there]
    return pd.DataFrame(
        {
            "id": ids[each],
            "label": labels[each],
            "rank": np.tile(np.arange(1, k + 1), queries)[there],
            "neighbour": table.ids[rows],
            "neighbour_label": table.label_names[rows].astype(str),
            "cosine": found.cosine.ravel()[there],
        }
    )
