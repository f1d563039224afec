"""Label suspects and class balance."""

import numpy as np
import pandas as pd
import pytest
from index_tables import labelled, table_of
from sklearn.linear_model import Ridge

from frostbench.embedcache import index
from frostbench.embedcache.index import confident, out_of_sample
from frostbench.embedcache.index.balance import FEW_BELOW, MANY_ABOVE
from frostbench.embedcache.index.rows import UnitRows, to_unit
from frostbench.embedcache.storage.store import CacheError
from frostbench.training.metrics import counts


def random_probabilities(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    classes = int(rng.integers(2, 7))
    n = int(rng.integers(30, 200))
    labels = np.concatenate([np.arange(classes), rng.integers(0, classes, n)])
    p = rng.dirichlet(np.ones(classes), len(labels))
    true = np.where(rng.random(len(labels)) < 0.3, rng.integers(0, classes, len(labels)), labels)
    p[np.arange(len(labels)), true] += 1.0
    return labels, p / p.sum(axis=1, keepdims=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(6))
def test_scores_and_confident_joint_are_those_of_cleanlab(seed: int) -> None:
    count = pytest.importorskip("cleanlab.count")
    rank = pytest.importorskip("cleanlab.rank")
    labels, p = random_probabilities(seed)
    np.testing.assert_allclose(
        confident.self_confidence(labels, p), rank.get_self_confidence_for_each_label(labels, p), atol=1e-12
    )
    np.testing.assert_allclose(
        confident.normalised_margin(labels, p), rank.get_normalized_margin_for_each_label(labels, p), atol=1e-12
    )
    np.testing.assert_allclose(
        confident.class_thresholds(labels, p), count.get_confident_thresholds(labels, p), atol=1e-12
    )
    np.testing.assert_array_equal(
        confident.confident_joint(labels, p), count.compute_confident_joint(labels, p, calibrate=False)
    )


def test_the_confident_joint_of_a_worked_example() -> None:
    p = np.array([[0.8, 0.2], [0.6, 0.4], [0.1, 0.9], [0.2, 0.8], [0.7, 0.3]])
    labels = np.array([0, 0, 0, 1, 1])
    np.testing.assert_allclose(confident.class_thresholds(labels, p), [0.5, 0.55])
    assert confident.confident_classes(labels, p).tolist() == [0, 0, 1, 1, 0]
    assert confident.confident_joint(labels, p).tolist() == [[2, 1], [1, 1]]
    assert confident.class_thresholds(np.array([0]), np.array([[0.3, 0.7]])).tolist() == [0.3, np.inf]


def test_ridge_scores_are_those_of_scikit_learn_fold_by_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out_of_sample, "BLOCK_ROWS", 29)
    table = labelled(150, classes=4, dim=10)
    folds = np.random.default_rng(1).integers(0, 3, 150)
    seen = []
    monkeypatch.setattr(out_of_sample, "_softmax_fitted", lambda scores, labels: seen.append(scores) or scores)
    out_of_sample.FoldRidge(UnitRows(table.columns["x"]), folds).probabilities(table.labels, 4)
    x, targets = to_unit(table.columns["x"]).astype(np.float64), np.eye(4)[table.labels]
    for fold in range(3):
        rest = folds != fold
        centred = x[rest] - x[rest].mean(axis=0)
        penalty = out_of_sample.RIDGE * (centred**2).sum() / 10
        model = Ridge(alpha=penalty).fit(x[rest], targets[rest])
        np.testing.assert_allclose(seen[0][~rest], model.predict(x[~rest]), atol=1e-5)


def test_left_out_rows_are_predicted_but_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out_of_sample, "_softmax_fitted", lambda scores, labels: scores)
    table = labelled(150, classes=4, dim=10)
    folds, labels = np.random.default_rng(1).integers(0, 3, 150), table.labels.copy()
    out = np.arange(0, 150, 7)
    labels[out] = out_of_sample.LEFT_OUT
    kept = np.flatnonzero(labels != out_of_sample.LEFT_OUT)
    ridge = out_of_sample.FoldRidge(UnitRows(table.columns["x"]), folds)
    before = ridge.probabilities(table.labels, 4)
    without = out_of_sample.FoldRidge(UnitRows(table.columns["x"][kept]), folds[kept])
    np.testing.assert_allclose(ridge.probabilities(labels, 4)[kept], without.probabilities(labels[kept], 4), atol=1e-6)
    np.testing.assert_allclose(ridge.probabilities(table.labels, 4), before, atol=1e-9)


def test_left_out_neighbours_do_not_vote() -> None:
    table = labelled(80, classes=3, dim=6)
    folds, labels = np.arange(80) % 4, table.labels.copy()
    neighbours = out_of_sample.FoldNeighbours(UnitRows(table.columns["x"]), folds, 5)
    x = to_unit(table.columns["x"])
    labels[::3] = out_of_sample.LEFT_OUT
    agreement = neighbours.agreement(labels)
    for row in (1, 2, 40, 79):
        others = np.flatnonzero(folds != folds[row])
        near = others[np.argsort(-(x[others] @ x[row]), kind="stable")[:5]]
        votes = np.exp(x[near] @ x[row] / out_of_sample.TEMPERATURE)
        voting = labels[near] != out_of_sample.LEFT_OUT
        own = votes[voting & (labels[near] == labels[row])].sum()
        assert agreement[row] == pytest.approx(own / votes[voting].sum() if voting.any() else 0, abs=1e-4)


def test_changed_labels_are_ranked_as_those_of_a_new_table() -> None:
    table = labelled(300, classes=4, dim=12, noise=0.8)
    ranker = index.SuspectRanker(table)
    labels = table.labels.copy()
    labels[:5] = (labels[:5] + 1) % 4
    first = ranker.rank(table.labels, table.class_names)
    pd.testing.assert_frame_equal(first.rows, index.suspects(table).rows)
    changed = ranker.rank(labels, table.class_names)
    assert not changed.rows.equals(first.rows)
    pd.testing.assert_frame_equal(ranker.rank(table.labels, table.class_names).rows, first.rows)
    labels[5:9] = -1
    assert len(ranker.rank(labels, table.class_names).rows) == 296
    # A class that nobody has seen before cannot be scored with a single row.
    labels[0] = 4
    alone = ranker.rank(labels, (*table.class_names, "new"))
    assert (alone.unscored, "new" in alone.warnings[0]) == (1, True)


def test_probabilities_are_calibrated_by_one_temperature() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4000, 3))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.array([rng.choice(3, p=each) for each in p])
    np.testing.assert_allclose(out_of_sample._softmax_fitted(logits / 7, labels), p, atol=0.03)


def test_wrong_labels_are_found() -> None:
    table = labelled(600, classes=6, dim=24, noise=0.9)
    rng = np.random.default_rng(5)
    wrong = rng.choice(600, 30, replace=False)
    labels = table.labels.copy()
    labels[wrong] = (labels[wrong] + rng.integers(1, 6, 30)) % 6
    found = index.suspects(table_of(table.columns["x"], labels))
    ids, names = set(table.ids[wrong]), dict(zip(table.ids, table.labels, strict=True))
    assert len(ids & set(found.rows["id"][:30])) >= 28
    assert len(ids & set(found.rows.sort_values("agreement")["id"][:30])) >= 28
    suspect = found.rows[found.rows["suspect"]]
    assert np.mean([one in set(suspect["id"]) for one in ids]) > 0.5
    assert np.mean([one in ids for one in suspect["id"]]) > 0.8
    mine = suspect[suspect["id"].isin(ids)]
    assert [f"c{names[one]}" for one in mine["id"]] == mine["suggested"].tolist()
    assert found.rows["self_confidence"].is_monotonic_increasing
    assert found.confusions["rows"].sum() == len(suspect)
    assert (found.unscored, found.warnings) == (0, ())


def test_a_wrong_label_is_not_confirmed_by_its_own_copies() -> None:
    table = labelled(300, classes=3, dim=12, noise=0.5)
    x, labels = table.columns["x"].copy(), table.labels.copy()
    own = np.flatnonzero(labels == 0)[:8]
    x[own] = x[own[0]] + np.linspace(0, 0.01, 8)[:, None]
    labels[own] = 1
    agreements = [
        index.suspects(table_of(x, labels), near=near, k=5).rows.set_index("id")["agreement"][table.ids[own]].max()
        for near in (0.999, None)
    ]
    assert agreements[0] < 0.01
    assert agreements[1] > 0.5


def test_a_class_of_one_group_cannot_be_judged() -> None:
    table = labelled(120, classes=3, dim=8)
    x, labels = np.concatenate([table.columns["x"], np.eye(4, 8)]), [*table.labels, 3, 3, 3, 3]
    found = index.suspects(table_of(x, labels, groups=[*(f"g{i // 2}" for i in range(120)), *["only"] * 4]))
    assert (found.unscored, len(found.rows)) == (4, 120)
    assert "c3" not in set(found.rows["label"])
    assert "4 rows could not be scored" in found.warnings[0]
    assert ": c3." in found.warnings[0]


def test_too_few_groups_for_the_folds_is_told() -> None:
    with pytest.raises(
        CacheError, match=r"number of groups \(3\) and the number of rows of the largest class \(15\), got 5"
    ):
        index.suspects(table_of(np.eye(30, 8), [0, 1] * 15, groups=[f"g{i % 3}" for i in range(30)]))


def test_one_class_has_no_suspects() -> None:
    with pytest.raises(CacheError, match="all rows have the same label"):
        index.suspects(table_of(np.eye(20, 8)))


def test_classes_are_counted_by_role() -> None:
    labels = [0] * 130 + [1] * 30 + [2] * 10 + [3]
    roles = np.array(["train"] * 101 + ["test"] * 29 + ["train"] * 20 + ["test"] * 10 + ["train"] * 10 + ["test"])
    groups = [*(f"g{i}" for i in range(160)), *["one"] * 10, "last"]
    found = index.balance(table_of(np.eye(171, 4), labels, groups=groups), roles)
    assert found.classes["rows"].tolist() == [130, 30, 10, 1]
    assert found.classes["groups"].tolist() == [130, 30, 1, 1]
    assert found.classes["train"].tolist() == [101, 20, 10, 0]
    assert found.classes["test"].tolist() == [29, 10, 0, 1]
    assert found.classes["shots"].tolist() == ["many", "medium", "few", "none"]
    assert found.imbalance_ratio == 130
    told = "\n".join(found.warnings)
    assert "1 class has fewer than 5 rows, so its metrics are mostly noise: c3." in told
    assert "1 class has one group, which a split cannot divide: c2." in told
    assert "1 class has no training row, so all its rows count as errors: c3." in told
    assert "1 class has no test row, so metrics of that role do not cover it: c2." in told


def test_effective_classes_are_all_where_all_are_equal() -> None:
    assert index.balance(table_of(np.eye(8, 4), [0, 1, 2, 3] * 2)).effective_classes == pytest.approx(4)
    uneven = index.balance(table_of(np.eye(8, 4), [0] * 6 + [1, 1]))
    shares = np.array([0.75, 0.25])
    assert uneven.effective_classes == pytest.approx(np.prod(shares**-shares))
    assert uneven.classes.columns.tolist() == ["class", "rows", "groups", "shots"]


def test_many_and_few_are_those_of_the_metrics() -> None:
    assert (MANY_ABOVE, FEW_BELOW) == (counts.MANY_ABOVE, counts.FEW_BELOW)


def test_an_empty_table_is_refused() -> None:
    with pytest.raises(ValueError, match="got 0 rows and no roles"):
        index.balance(table_of(np.empty((0, 4))))
