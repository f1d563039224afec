"""Vectors and labels that someone has, from import to prediction, on the command line."""

import numpy as np
import pandas as pd
import pytest

from frostbench.heads.vectors import NOT_FINITE

LABELS = np.arange(90) % 3


@pytest.fixture
def imported(frostbench, tmp_path):
    """Imports 90 vectors [90, 5] of three classes, scaled, under labels."""

    def run(factor=1.0, names=("ash", "beech", "cedar")):
        x = 8 * np.eye(3, 5)[LABELS] + np.random.default_rng(0).normal(0, 1, (90, 5))
        np.save(tmp_path / "x.npy", factor * x)
        pd.DataFrame({"label": [names[label] for label in LABELS]}).to_csv(tmp_path / "rows.csv", index=False)
        return frostbench(
            "cache", "import", tmp_path / "x.npy", tmp_path / "rows.csv", "--cache", tmp_path / "c", "--model", "mine"
        )

    return run


def train(frostbench, folder, *more):
    return frostbench(
        "train", folder / "c", "--store", folder / "runs", "--set", "head.classifier.kind=logreg", "--out",
        folder / "head", *more,
    )  # fmt: skip


@pytest.mark.parametrize(("factor", "storage"), [(1.0, "float16"), (1e-8, "float32"), (1e6, "float32")])
def test_the_scale_of_imported_vectors_decides_nothing(frostbench, imported, tmp_path, factor, storage):
    result = imported(factor)
    assert result.status == 0, result.err
    assert f"features [5] {storage}" in result.out
    assert float(result.out.split("largest rounding error ")[1].split()[0]) <= 2**-11
    assert frostbench("cache", "verify", tmp_path / "c").status == 0


def test_a_head_of_imported_float32_vectors_predicts_them(frostbench, imported, tmp_path):
    imported(1e6)
    result = train(frostbench, tmp_path)
    assert result.status == 0, result.err
    result = frostbench("predict", tmp_path / "head", tmp_path / "c", "--out", tmp_path / "new.csv")
    assert result.status == 0, result.err
    found = pd.read_csv(tmp_path / "new.csv")
    assert (found["class"] == np.array(["ash", "beech", "cedar"])[LABELS]).mean() > 0.9


def test_rows_that_are_not_finite_are_error_rows_of_predict(frostbench, imported, tmp_path, monkeypatch):
    imported()
    assert train(frostbench, tmp_path).status == 0
    from frostbench.app.actions import predicting

    read = predicting.read_table

    def damaged(folder):
        table = read(folder)
        x = table.columns["features"].copy()
        x[[3, 4]] = np.nan
        table.columns["features"] = x
        return table

    monkeypatch.setattr(predicting, "read_table", damaged)
    result = frostbench("predict", tmp_path / "head", tmp_path / "c", "--out", tmp_path / "new.csv")
    assert result.status == 0, result.err
    assert "90 images, 2 of them" in result.out
    found = pd.read_csv(tmp_path / "new.csv")
    assert found["error"][[3, 4]].tolist() == [NOT_FINITE] * 2
    assert found["class"].isna().sum() == 2


def test_one_class_is_refused_by_train_and_bench(frostbench, imported, tmp_path):
    imported(names=("ash",) * 3)
    result = train(frostbench, tmp_path)
    assert result.status == 2
    assert "training rows are of class 'ash'" in result.err
    (tmp_path / "bench.yaml").write_text(
        f"name: one\ncaches: [{tmp_path / 'c'}]\nstore: {tmp_path / 'runs'}\npreset: plain\nseeds: [0]\n"
    )
    result = frostbench("bench", "run", tmp_path / "bench.yaml")
    assert result.status == 2
    assert "Training needs at least two classes" in result.err


def test_perfect_calibration_rows_are_told_by_train(frostbench, imported, tmp_path):
    imported()
    result = train(frostbench, tmp_path, "--set", "posthoc.calibration.kind=temperature")
    assert result.status == 0, result.err
    assert (
        "calibration rows are classified correctly, so nothing limits the confidence that a temperature of"
        in result.out
    )
    assert "calibration rows are classified correctly" in (tmp_path / "head" / "card.json").read_text()
