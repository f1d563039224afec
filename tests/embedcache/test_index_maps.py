"""Maps of a table in two dimensions."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from index_tables import at, labelled, table_of
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from frostbench.embedcache import index
from frostbench.embedcache.index.maps import map_path
from frostbench.embedcache.index.rows import to_unit
from frostbench.embedcache.storage.store import CacheError
from frostbench.embedcache.table import read_table


def test_the_map_is_that_of_scikit_learn_up_to_sign() -> None:
    table = labelled(200)
    found = index.make_map(table)[["x", "y"]].to_numpy()
    x = to_unit(table.columns["x"]).astype(np.float64)
    wanted = PCA(2, svd_solver="full").fit_transform(x)
    signs = np.sign((found * wanted).sum(axis=0))
    np.testing.assert_allclose(found, wanted * signs, atol=1e-5)


def test_a_map_is_made_once_and_kept(make_cache: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from frostbench.embedcache.checking.verify import verify_cache
    from frostbench.embedcache.index import maps

    path = make_cache()
    table = read_table(path)
    made = index.load_or_make_map(path, table)
    monkeypatch.setattr(maps, "make_map", lambda *_, **__: pytest.fail("was computed again"))
    kept = index.load_or_make_map(path, read_table(path, stored=True))
    pd.testing.assert_frame_equal(made, kept)
    assert made["id"].tolist() == table.ids.tolist()
    keys = {map_path(path, table, "pca"), map_path(path, table, "umap"), map_path(path, table, "umap", seed=1)}
    assert len({*keys, map_path(path, table, "pca", column="patch_mean")}) == 4
    assert verify_cache(path).ok
    map_path(path, table, "pca").write_bytes(b"no")
    with pytest.raises(CacheError, match=r"stored map .* is damaged.*Delete it; it will be computed again"):
        index.load_or_make_map(path, table)


def test_a_map_needs_rows_and_umap_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"A map by pca needs at least 3 rows and 2 dimensions, got \[2, 2\]"):
        index.make_map(table_of(at(0, 1)))
    monkeypatch.setitem(__import__("sys").modules, "umap", None)
    with pytest.raises(ModuleNotFoundError, match=r'not installed. Run pip install "frostbench\[umap\]"'):
        index.make_map(labelled(20), "umap")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_umap_gives_the_same_map_each_time_and_keeps_clusters_apart() -> None:
    pytest.importorskip("umap")
    table = labelled(90, classes=3, noise=0.2)
    first, second = (index.make_map(table, "umap")[["x", "y"]].to_numpy() for _ in range(2))
    np.testing.assert_array_equal(first, second)
    near = NearestNeighbors(n_neighbors=2).fit(first).kneighbors(first)[1][:, 1]
    assert (table.labels[near] == table.labels).mean() > 0.95
