import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from frostbench.benchmarks.api import compare, fit
from frostbench.benchmarks.inference.predict import predict_table
from frostbench.benchmarks.settings.parsing import SettingsError
from frostbench.embedcache.table import read_table
from frostbench.heads.bundle.export import load, save
from frostbench.training.run import RunSpec

QUICK = {"train.schedule.min_steps": 20, "train.schedule.epochs": 2}
SOLVED = {"head.classifier.kind": "logreg"}


@pytest.fixture(scope="module")
def arrays():
    """Three classes far apart: x [120, 5] and labels [120]."""
    generator = np.random.default_rng(3)
    labels = np.repeat([0, 1, 2], [60, 40, 20])
    centres = 6 * np.eye(3, 5)
    return centres[labels] + generator.normal(0, 1, (120, 5)), labels


def test_a_head_is_fitted_to_arrays(arrays):
    x, labels = arrays
    names = np.array(["ten", "two", "one"])
    head = fit(x, labels, SOLVED, class_names=names)
    assert head.class_names == ("ten", "two", "one")
    assert (head.predict(x) == labels).mean() > 0.98
    assert (names[head.predict_proba(x).argmax(1)] == names[labels]).mean() > 0.98
    assert head.predict_proba(x).shape == (120, 3)
    assert np.allclose(head.predict_proba(x).sum(1), 1)
    assert head.metrics["macro_f1_fg"] > 0.95
    assert "validation rows (select)" in str(head)
    assert repr(head) == (
        f"<Fitted: 3 classes, run {head.record.key}, macro_f1_fg {head.metrics['macro_f1_fg']:.4f} "
        "on validation rows (select), refitted>"
    )
    assert any("No groups are given" in warning for warning in head.warnings)


def test_the_same_call_gives_the_same_head(arrays):
    x, labels = arrays
    one, again, other = (fit(x, labels, QUICK, seed=seed).predict_proba(x) for seed in (0, 0, 1))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_classes_are_those_of_the_head_s_decisions(arrays):
    x, labels = arrays
    shifted = SOLVED | {"posthoc.shift": {"kind": "given", "logits": {"2": 50}}}
    head = fit(x, labels, shifted, class_names=["0", "1", "2"])
    assert (head.predict(x) == 2).all()
    assert head.predict_proba(x).argmax(1).tolist() == fit(x, labels, SOLVED).predict_proba(x).argmax(1).tolist()
    assert head.metrics["accuracy"] < 0.5


def test_torch_tensors_columns_and_whole_specs_are_taken(arrays):
    x, labels = arrays
    wanted = fit(x, labels, SOLVED)
    spec = RunSpec.model_validate(wanted.record.full_spec)
    found = fit(torch.from_numpy(x), torch.from_numpy(labels), spec)
    assert np.array_equal(found.predict_proba(x), wanted.predict_proba(x))
    both = fit({"a": x, "b": x[:, :2]}, labels, SOLVED | {"columns": ["a", "b"]})
    assert both.predict_proba({"a": x, "b": x[:, :2]}).shape == (120, 3)


def test_groups_stay_on_one_side_and_roles_may_be_given(arrays):
    x, labels = arrays
    groups = np.arange(120) // 2
    assert not any("No groups" in w for w in fit(x, labels, SOLVED, groups=groups).warnings)
    roles = np.where(np.arange(120) % 5 == 0, "select", "train")
    rows = fit(x, labels, SOLVED, split=roles).record.data.rows
    assert (rows["select"], rows["test"]) == (24, 0)
    assert 0 < rows["calibrate"] < 20


def test_a_cache_and_its_table_give_the_same_predictions(cache, tmp_path):
    table = read_table(cache)
    own, from_table = fit(cache, None, SOLVED), fit(table, None, SOLVED)
    a, b = (predict_table(head.head, table) for head in (own, from_table))
    assert list(a["class"]) == list(b["class"])
    changed = replace(table, recipes={"toy": table.recipes["toy"].model_copy(update={"model": "other"})})
    with pytest.raises(ValueError, match="trained on column 'toy'"):
        predict_table(from_table.head, changed)
    save(own.head, tmp_path / "bundle")
    assert load(tmp_path / "bundle").head.class_names == own.class_names


def test_settings_are_compared_with_the_first(arrays, tmp_path):
    x, labels = arrays
    rows = {"stepped": QUICK, "slow": {"train.optim.lr": 1e-7}, "solved": SOLVED}
    found = compare(x, labels, rows, seeds=(0, 1), groups=np.arange(120) // 2, store=tmp_path / "store")
    made = found.comparison
    assert list(made.rows) == ["stepped", "slow", "solved"]
    assert (made.baseline, made.role, made.title) == ("stepped", "select", "slow, solved against stepped")
    line = made.line("slow", "macro_f1_fg")
    assert line["delta"] == pytest.approx(line["value"] - made.line("stepped", "macro_f1_fg")["value"])
    assert line["low"] <= line["delta"] <= line["high"]
    assert f"difference {line['delta']:+.4f} (95 % interval {line['low']:+.4f}" in found.verdict("slow")
    assert str(found).startswith(found.verdict("slow") + "\n" + found.verdict("solved"))
    with pytest.raises(SettingsError, match=r"row of this comparison .* \['stepped', 'slow', 'solved'\], got 'slwo'"):
        found.verdict("slwo")
    with pytest.raises(SettingsError, match=r"metric of this comparison .*'macro_f1_fg'.*\], got 'f1'\. Name one"):
        found.verdict("slow", "f1")
    records = pd.read_parquet(tmp_path / "store" / "records.parquet")
    assert len(records) == 6
    fit(x, labels, QUICK, groups=np.arange(120) // 2, store=tmp_path / "store", seed=1)
    assert len(list((tmp_path / "store" / "runs").iterdir())) == 6


def test_a_comparison_is_of_the_cache_s_own_rows(cache):
    found = compare(cache, None, {"a": SOLVED, "b": {"head.classifier.c": 0.01}}, seeds=(0,))
    assert re.match(r"'b' (is|cannot) .*'a' on macro_f1_fg", str(found))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"x": np.ones(5)}, r"vectors must be a matrix \[N, D\]"),
        ({"x": np.ones((120, 2, 2))}, r"matrix \[N, D\].*\[120, 2, 2\].*Pool tokens"),
        ({"labels": [0, 1]}, "lengths are .*'label': 2.*'features': 120"),
        ({"labels": np.full(120, 0.5)}, "floating-point labels must be whole numbers below"),
        ({"class_names": ["a"]}, "indices into class_names, 0 to 0"),
        ({"groups": [1]}, "'group': 1"),
        ({"split": ["train", "valid"] * 60}, r"one of .*'select'.* got \['valid'\]"),
        ({"spec": {"train.optim.lrr": 1}}, "Did you mean train.optim.lr?"),
        ({"spec": {"seed": 1}}, "Seeds must be the same for all rows"),
        ({"preset": "best"}, "'best' is not one of the presets"),
        ({"x": "nowhere", "labels": None}, "nowhere"),
        ({"x": "nowhere"}, "has its own labels, groups and class names"),
    ],
)
def test_mistakes_are_told(arrays, change, told):
    x, labels = arrays
    with pytest.raises(ValueError, match=told):
        fit(**{"x": x, "labels": labels, "spec": None} | change)


def test_a_comparison_needs_two_rows(arrays):
    with pytest.raises(ValueError, match=r"at least two rows, .*got \['a'\]"):
        compare(*arrays, {"a": {}})


def test_nothing_is_left_behind(arrays, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "scratch").mkdir()
    fit(*arrays, SOLVED)
    assert list(Path().rglob("*")) == [Path("scratch")]
