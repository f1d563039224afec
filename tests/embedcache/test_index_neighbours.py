"""Nearest rows of a table, of some of its rows, and of images."""

from pathlib import Path

import numpy as np
import pytest
from index_tables import RECIPE, at, labelled, table_of
from sklearn.neighbors import NearestNeighbors

from frostbench.embedcache import index
from frostbench.embedcache.index import search
from frostbench.embedcache.index.images import embed_images
from frostbench.embedcache.index.rows import to_unit


def test_neighbours_are_those_of_numpy_and_of_scikit_learn(small_blocks: None) -> None:
    table = labelled(300)
    found = index.neighbours(table, 6)
    x = table.columns["x"].astype(np.float64)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -2)
    wanted = np.argsort(-cosine, axis=1, kind="stable")[:, :6]
    assert (found.rows["neighbour"].to_numpy().reshape(300, 6) == table.ids[wanted]).all()
    expected = np.take_along_axis(cosine, wanted, 1)
    np.testing.assert_allclose(found.rows["cosine"].to_numpy().reshape(300, 6), expected, atol=1e-6)
    oracle = NearestNeighbors(n_neighbors=7, metric="cosine", algorithm="brute").fit(x)
    distance, rows = oracle.kneighbors(x)
    assert (rows[:, 1:] == wanted).all()
    np.testing.assert_allclose(1 - distance[:, 1:], expected, atol=1e-6)
    assert (found.method, found.recall, found.warnings) == ("exact", 1.0, ())


def test_neighbours_of_some_rows_come_in_the_order_asked_for() -> None:
    table = table_of(at(0, 0.1, 0.3, 1.0), labels=[0, 1, 1, 2])
    found = index.neighbours(table, 2, ids=["r00003", "r00000"]).rows
    assert found["id"].tolist() == ["r00003"] * 2 + ["r00000"] * 2
    assert found["neighbour"].tolist() == ["r00002", "r00001", "r00001", "r00002"]
    assert found["rank"].tolist() == [1, 2, 1, 2]
    assert found["label"].tolist() == ["c2", "c2", "c0", "c0"]
    assert found["neighbour_label"].tolist() == ["c1", "c1", "c1", "c1"]
    np.testing.assert_allclose(found["cosine"][:2], np.cos([0.7, 0.9]), atol=1e-3)


def test_ties_are_listed_by_row_and_zero_vectors_are_near_to_nothing() -> None:
    same = [[1.0, 2.0]] * 4
    table = table_of(np.array([*same, [0.0, 0.0], [-2.0, 1.0]]))
    found = index.neighbours(table, 5, ids=["r00002", "r00004"]).rows
    assert found["neighbour"].tolist()[:3] == ["r00000", "r00001", "r00003"]
    assert found["cosine"].tolist()[5:] == [0.0] * 5
    assert np.isfinite(found["cosine"]).all()


@pytest.mark.parametrize("k", [0, 4])
def test_k_is_checked(k: int) -> None:
    with pytest.raises(ValueError, match=rf"k must be between 1 and 3 for a table of 4 rows, got {k}"):
        index.neighbours(table_of(at(0, 1, 2, 3)), k)


def test_an_inverted_file_says_its_recall_and_keeps_it() -> None:
    table = labelled(3000, dim=16, classes=40)
    exact, fast = (index.neighbours(table, 10, method=method) for method in ("exact", "ivf"))
    assert fast.method == "ivf"
    found = fast.rows.groupby("id")["neighbour"].agg(set)
    wanted = exact.rows.groupby("id")["neighbour"].agg(set)
    recall = np.mean([len(found[i] & wanted[i]) / 10 for i in wanted.index])
    assert recall > 0.95
    assert fast.recall == pytest.approx(recall, abs=0.03)
    assert "approximate" in fast.warnings[0]
    assert (fast.rows["id"] != fast.rows["neighbour"]).all()


def test_many_rows_are_not_searched_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "EXACT_PAIRS", 300**2)
    assert index.neighbours(labelled(300), 3).method == "exact"
    assert index.neighbours(labelled(301), 3).method == "ivf"
    assert index.duplicates(labelled(301)).method == "ivf"


def test_images_are_embedded_by_the_recipe_of_the_column(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import torch
    from PIL import Image

    from frostbench.embedcache.backbones import rebuild

    class Fake:
        def prepare(self, image: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(image.copy()).permute(2, 0, 1)

        def embed(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"x": batch.float().mean((2, 3))[:, :2]}

    asked = []
    monkeypatch.setattr(rebuild, "rebuild", lambda recipes, **options: asked.append((recipes, options)) or Fake())
    files = [tmp_path / "a.png", tmp_path / "b.png"]
    Image.new("RGB", (4, 4), (250, 10, 0)).save(files[0])
    Image.new("RGB", (4, 4), (0, 200, 0)).save(files[1])
    found = index.image_neighbours(table_of(at(0, 1.5, 3)), files, 1)
    assert found.rows["neighbour"].tolist() == ["r00000", "r00001"]
    assert found.rows["id"].tolist() == [str(path) for path in files]
    assert found.rows["label"].tolist() == ["", ""]
    assert asked == [({"x": RECIPE}, {"weights": None, "device": "cpu"})]
    files[1].write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"Cannot read the image .*b.png: is not an image.*Choose another file"):
        embed_images("x", RECIPE, files)


def test_imported_vectors_have_no_images() -> None:
    with pytest.raises(ValueError, match="imported, so their recipe is unknown"):
        embed_images("x", RECIPE, [])


def test_neighbours_among_some_rows() -> None:
    table = labelled(60, classes=3, dim=8)
    among = np.arange(60) % 3 != 1
    rows, cosine = index.nearest_among(table, str(table.ids[3]), among, 5)
    x = to_unit(table.columns["x"])
    wanted = [row for row in np.argsort(-(x @ x[3]), kind="stable") if among[row] and row != 3][:5]
    assert rows.tolist() == wanted
    np.testing.assert_allclose(cosine, (x @ x[3])[wanted], atol=1e-6)
    few = np.arange(60) < 2
    assert sorted(index.nearest_among(table, str(table.ids[3]), few, 5)[0].tolist()) == [0, 1]
    with pytest.raises(ValueError, match="k must be between 1 and 0"):
        index.nearest_among(table, str(table.ids[3]), np.arange(60) == 3, 5)
