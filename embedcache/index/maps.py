"""Two-dimensional maps of a table, computed once and stored in the cache."""

import hashlib
import json
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from frostbench.embedcache.index.rows import UnitRows, column_of
from frostbench.embedcache.outputs.places import is_refused
from frostbench.embedcache.storage.damage import MISREAD
from frostbench.embedcache.storage.files import CacheError, write_parquet
from frostbench.embedcache.storage.own import check_links
from frostbench.embedcache.table import FeatureTable

MapMethod = Literal["pca", "umap"]
BLOCK_ROWS = 16_384
VERSION = 1
"""Part of the key; increase it when a change here moves points."""

Points = npt.NDArray[np.float64]


def make_map(
    table: FeatureTable, method: MapMethod = "pca", *, column: str | None = None, seed: int = 42
) -> pd.DataFrame:
    """Compute the position of each row on a map: id, label, x, y.

    PCA (of unit vectors) reads the rows twice, block by block; the largest loading of each axis is positive, so the map
    is reproducible. UMAP (McInnes et al., 2018) needs all rows in memory and uses a fixed seed.

    Args:
        table: in memory or on disk.
        method: pca or umap.
        column: vector column; default: the first by name.
        seed: seed of UMAP.

    Raises:
        ValueError: there are fewer than 3 rows (15 for UMAP), or there is no such column.
        ModuleNotFoundError: UMAP is not installed.
    """
    vectors = column_of(table, column)[1]
    least = 3 if method == "pca" else 15
    if vectors.shape[0] < least or vectors.shape[1] < 2:
        raise ValueError(
            f"A map by {method} needs at least {least} rows and 2 dimensions, got {list(vectors.shape)}. Add images."
        )
    points = _pca(vectors) if method == "pca" else _umap(vectors, seed)
    labels = table.label_names.astype(str)
    return pd.DataFrame({"id": table.ids, "label": labels, "x": points[:, 0], "y": points[:, 1]})


def load_or_make_map(
    cache_dir: Path, table: FeatureTable, method: MapMethod = "pca", *, column: str | None = None, seed: int = 42
) -> pd.DataFrame:
    """Load the stored map of these rows, recipe and method, or make and store it.

    If the cache is not writable, for example on a read-only disk, the map is made again each time.

    Raises:
        ValueError: see `make_map`; or the stored file is damaged.
    """
    path = map_path(cache_dir, table, method, column=column, seed=seed)
    if not path.is_file():
        made = make_map(table, method, column=column, seed=seed)
        check_links(cache_dir)
        try:
            write_parquet(path, pa.Table.from_pandas(made[["id", "x", "y"]], preserve_index=False))
        except OSError as error:
            if not is_refused(error):
                raise
        return made
    try:
        kept = pq.read_table(path, partitioning=None).to_pandas()
        ids, x, y = kept["id"].tolist(), kept["x"], kept["y"]
    except MISREAD as error:
        raise CacheError(
            f"The stored map {path} is damaged ({error}). Delete it; it will be computed again."
        ) from error
    if ids != table.ids.tolist():
        raise CacheError(f"A stored map must list the rows of its table, but {path} lists others. Delete it.")
    labels = table.label_names.astype(str)
    return pd.DataFrame({"id": table.ids, "label": labels, "x": x, "y": y})


def map_path(
    cache_dir: Path, table: FeatureTable, method: MapMethod, *, column: str | None = None, seed: int = 42
) -> Path:
    """Return the path of the map of these rows; it depends on the images, not on labels or groups."""
    name = column_of(table, column)[0]
    recipe = table.recipes[name].hash
    key = [VERSION, method, name, recipe, table.ids.tolist(), table.content.tolist()]
    digest = hashlib.sha256(json.dumps([*key, seed] if method == "umap" else key).encode()).hexdigest()
    return cache_dir / "maps" / f"{digest[:16]}.parquet"


def _pca(rows: UnitRows) -> Points:
    """Compute the first two principal components [N, 2] from a covariance summed block by block."""
    from scipy.linalg import eigh

    count, dim = rows.shape
    mean, scatter = np.zeros(dim), np.zeros((dim, dim))
    for _, x in rows.blocks(BLOCK_ROWS):
        mean += x.sum(axis=0, dtype=np.float64) / count
        scatter += x.T @ x
    values = scatter / count - np.outer(mean, mean)
    axes = eigh(values, subset_by_index=[dim - 2, dim - 1])[1][:, ::-1]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), [0, 1]])
    return np.concatenate([(x - mean) @ axes for _, x in rows.blocks(BLOCK_ROWS)])


def _umap(rows: UnitRows, seed: int) -> Points:
    try:
        from umap import UMAP
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "A map by umap needs the package umap-learn, which is not installed. "
            'Run pip install "frostbench[umap]", or use pca.'
        ) from error
    x = rows.block(0, rows.shape[0])
    return np.asarray(UMAP(metric="cosine", random_state=seed, n_jobs=1).fit_transform(x), dtype=np.float64)
