"""Copies across the roles of a split, and copies of other labels."""

import numpy as np
import pytest
from index_tables import at, labelled, table_of

from frostbench.embedcache import index
from frostbench.embedcache.table import FeatureTable


@pytest.fixture
def leaky() -> tuple[FeatureTable, np.ndarray]:
    x = at(0, 0, 0.05, 1, 1.1, 2, 2.01, 4, 4)
    content = ["a", "a", "b", "c", "d", "e", "f", "g", "g"]
    labels = [0, 0, 0, 1, 1, 0, 1, 0, 1]
    roles = np.array(["train", "test", "test", "train", "select", "test", "select", "train", "train"])
    return table_of(x, labels, content), roles


def test_leaks_name_the_nearest_training_row(leaky: tuple[FeatureTable, np.ndarray]) -> None:
    found = index.leaks(*leaky, threshold=0.99)
    assert found.rows[["id", "role", "train_id", "kind"]].to_numpy().tolist() == [
        ["r00001", "test", "r00000", "identical"],
        ["r00002", "test", "r00000", "near"],
        ["r00004", "select", "r00003", "near"],
    ]
    assert found.rows["cosine"].to_numpy() == pytest.approx(np.cos([0, 0.05, 0.1]), abs=1e-3)
    assert found.summary.to_numpy().tolist() == [["select", 2, 0, 1, 0.5], ["test", 3, 1, 1, 2 / 3]]
    told = "1 of 2 select rows (50.0%) has a duplicate in training, so select metrics are too optimistic."
    assert found.warnings[0].startswith(told)
    assert found.warnings[1].startswith("2 of 3 test rows (66.7%) have a duplicate in training")


def test_copies_with_different_labels_are_conflicts(leaky: tuple[FeatureTable, np.ndarray]) -> None:
    found = index.leaks(*leaky, threshold=0.99).conflicts
    assert found[["id", "label", "other_id", "other_label", "kind"]].to_numpy().tolist() == [
        ["r00007", "c0", "r00008", "c1", "identical"],
        ["r00005", "c0", "r00006", "c1", "near"],
    ]


def test_leaks_equal_brute_force(small_blocks: None) -> None:
    table = labelled(260, dim=5)
    roles = np.random.default_rng(3).choice(["train", "select", "test"], 260)
    found = index.leaks(table, roles, 0.95)
    x = table.columns["x"].astype(np.float64)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    cosine = np.where((roles == "train")[None], unit @ unit.T, -2)
    leaking = (roles != "train") & (cosine.max(1) >= 0.95)
    assert set(found.rows["id"]) == set(table.ids[leaking])
    assert dict(zip(found.rows["id"], found.rows["train_id"], strict=True)) == dict(
        zip(table.ids[leaking], table.ids[cosine.argmax(1)[leaking]], strict=True)
    )


def test_roles_of_another_table_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Each of the 2 rows needs a role, got roles of shape \[3\]"):
        index.leaks(table_of(at(0, 1)), np.array(["train"] * 3))
