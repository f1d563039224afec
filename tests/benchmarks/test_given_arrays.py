"""Arrays of various forms in fit and compare."""

import re

import numpy as np
import pandas as pd
import pytest
import torch

from frostbench.benchmarks.api import compare, fit
from frostbench.benchmarks.arrays import cache_of
from frostbench.embedcache.table import read_table
from frostbench.heads.bundle.export import load, save

SOLVED = {"head.classifier.kind": "logreg"}


@pytest.fixture(scope="module")
def arrays():
    """Three classes far apart: x [90, 5] and labels [90]."""
    generator = np.random.default_rng(5)
    labels = np.arange(90) % 3
    return 8 * np.eye(3, 5)[labels] + generator.normal(0, 1, (90, 5)), labels


def test_the_class_list_is_the_order_of_the_columns_and_keeps_classes_without_rows(arrays):
    x, labels = arrays
    names = ["pear", "absent", "apple", "fig"]
    with pytest.warns(UserWarning, match="1 of 4 classes has no row.*absent") as told:
        head = fit(x, 2 * (labels > 0) + (labels > 1), SOLVED, class_names=names)
    assert told[0].filename == __file__
    assert head.class_names == tuple(names)
    assert any("absent" in warning for warning in head.warnings)
    p = head.predict_proba(x)
    np.testing.assert_array_equal(p.argmax(1), 2 * (labels > 0) + (labels > 1))
    assert p.shape == (90, 4)
    assert (p[:, 1] == 0).all()


@pytest.mark.parametrize(
    "named",
    [
        np.array([10, 2, 30], np.int16),
        np.array([0, 1, 2], np.uint8),
        np.array([-5, 0, 5], np.int64),
        np.array([0.0, 1.0, 2.0], np.float32),
        np.array(["b", "a", "c"]),
        np.array(["b", "a", "c"], dtype=object),
    ],
)
def test_predictions_are_labels_of_the_caller_s_own_type(arrays, named):
    x, labels = arrays
    head = fit(x, named[labels], SOLVED)
    found = head.predict(x)
    np.testing.assert_array_equal(found, named[labels])
    assert found.dtype == named.dtype
    np.testing.assert_array_equal(head.classes[head.predict_proba(x).argmax(1)], named[labels])
    np.testing.assert_array_equal(head.classes, np.sort(named))


def test_places_of_sorted_integers_are_the_columns_of_the_probabilities(arrays):
    x, labels = arrays
    np.testing.assert_array_equal(fit(x, labels, SOLVED).predict_proba(x).argmax(1), labels)
    flags = labels > 0
    head = fit(x, torch.from_numpy(flags), SOLVED)
    np.testing.assert_array_equal(head.predict(x), flags)
    assert head.predict(x).dtype == bool


@pytest.mark.parametrize("names", [["a", "b", "a"], ["a", "b"], ["a", "b", " "]])
def test_class_lists_with_repeated_missing_or_blank_names_are_refused(arrays, names):
    with pytest.raises(ValueError, match=r"name each class once|indices into class_names, 0 to 1"):
        fit(*arrays, SOLVED, class_names=names)


def test_missing_labels_are_refused_with_their_count(arrays):
    x, labels = arrays
    named = [None if row in (4, 9) else "abc"[label] for row, label in enumerate(labels)]
    for column in (named, pd.Series(named), np.array(named, dtype=object), pd.Categorical(named)):
        with pytest.raises(ValueError, match=r"2 of 90 are missing \(NaN, None or blank\), the first in row 4"):
            fit(x, column, SOLVED)
    with pytest.raises(ValueError, match="would be merged"):
        compare(x, [1, "1", 2] * 30, {"a": {}, "b": {}})


def test_a_table_keeps_its_classes_without_rows_and_its_own_split(cache, tmp_path):
    from dataclasses import replace

    table = read_table(cache)
    longer = replace(table, class_names=(*table.class_names, "unseen"))
    with pytest.warns(UserWarning, match="has no row"):
        head = fit(longer, None, SOLVED)
    assert head.class_names == longer.class_names
    assert head.predict(table.columns["toy"]).dtype.kind == "U"
    roles = np.where(np.arange(len(table.ids)) % 4 == 0, "select", "train")
    given = fit(replace(table, split=roles), None, SOLVED, split={"source": "given", "test": 0, "calibrate": 0})
    assert given.record.data.rows["select"] == (roles == "select").sum()


@pytest.mark.parametrize("gap", [None, np.nan, pd.NA, " "], ids=ascii)
def test_rows_of_unknown_groups_are_independent_and_counted(arrays, gap):
    x, labels = arrays
    groups = [gap if row < 60 else f"g{row // 2}" for row in range(90)]
    with pytest.warns(UserWarning, match="60 of 90 images have no group; each of them counts as independent"):
        head = fit(x, labels, SOLVED, groups=groups)
    # 60 single rows and 15 pairs; no role can take all rows without a group.
    assert sum(head.record.data.groups.values()) == 75
    assert min(head.record.data.rows[role] for role in ("train", "select", "test")) > 5
    assert sum("no group" in warning for warning in head.warnings) == 1


def test_groups_are_of_one_kind(arrays):
    with pytest.raises(ValueError, match="groups must all have one type, got integers and text"):
        fit(*arrays, SOLVED, groups=["a", 1] * 45)
    with_gap = np.where(np.arange(90) == 0, np.nan, np.arange(90) // 2)
    with pytest.warns(UserWarning, match="1 of 90 images"):
        head = fit(*arrays, SOLVED, groups=with_gap)
    assert sum(head.record.data.groups.values()) == 46


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.astype(">f4"),
        lambda x: x.astype(np.longdouble),
        lambda x: np.asfortranarray(x)[:, ::1],
        lambda x: np.repeat(x, 2, 1)[:, ::2],
        pd.DataFrame,
        lambda x: x.tolist(),
        lambda x: torch.tensor(x, requires_grad=True),
    ],
)
def test_vectors_of_any_kind_are_fitted_and_predicted_alike(arrays, change):
    x, labels = arrays
    plain = fit(x, labels, SOLVED)
    other = fit(change(x), labels, SOLVED)
    np.testing.assert_allclose(other.predict_proba(change(x)), plain.predict_proba(x), atol=1e-6)


def test_integer_vectors_are_numbers(arrays):
    x, labels = arrays
    counts = np.rint(10 * x).astype(np.int32)
    np.testing.assert_allclose(
        fit(counts, labels, SOLVED).predict_proba(counts), fit(counts * 1.0, labels, SOLVED).predict_proba(counts * 1.0)
    )


KINDS = [
    SOLVED,
    {"head.classifier.kind": "knn"},
    {"head.classifier.kind": "ncm"},
    {"train.schedule.epochs": 1, "train.schedule.min_steps": 1},
]


@pytest.mark.parametrize("spec", KINDS, ids=lambda spec: str(next(iter(spec.values()))))
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_rows_that_are_not_finite_are_not_classified(arrays, spec, value):
    x, labels = arrays
    head = fit(x, labels, spec)
    wrong = x.copy()
    wrong[[7, 30], 2] = value
    for predict in (head.predict, head.predict_proba):
        with pytest.raises(ValueError, match="2 of 90 rows hold NaN or infinity, first row 7"):
            predict(wrong)


def test_other_shapes_are_refused_in_words(arrays, tmp_path):
    x, labels = arrays
    head = fit(x, labels, SOLVED)
    with pytest.raises(ValueError, match=r"trained on 5 dimensions, got .*4"):
        head.predict(x[:, :4])
    with pytest.raises(ValueError, match=r"got float64 \[5\]. Pass x\[None\] for one vector"):
        head.predict(x[0])
    with pytest.raises(ValueError, match=r"arrays \[N, D\] with the same rows"):
        head.predict(x[None])
    with pytest.raises(ValueError, match="are not among"):
        head.predict({"other": x})
    assert head.predict_proba(x[:0]).shape == (0, 3)
    save(head.head, tmp_path / "bundle")
    with pytest.raises(ValueError, match="trained on 5 dimensions"):
        load(tmp_path / "bundle").head.log_probabilities({"features": torch.ones(2, 6)})


def test_no_rows_and_rows_that_are_not_finite_are_no_training_data(arrays):
    x, labels = arrays
    with pytest.raises(ValueError, match="must have at least one row, got none"):
        fit(x[:0], labels[:0], SOLVED)
    wrong = x.copy()
    wrong[3] = np.nan
    with pytest.raises(ValueError, match="vectors must be finite, but 1 of 90 rows is not; the first is row 3"):
        fit(wrong, labels, SOLVED)
    with pytest.raises(ValueError, match=r"duplicate names \['1'\]. Name each column once"):
        fit({1: x, "1": x}, labels, SOLVED)


@pytest.mark.parametrize("factor", [1e-30, 1e-8, 1e-4, 1e4, 1e8])
def test_nothing_is_lost_of_vectors_of_any_scale(arrays, tmp_path, factor):
    x, labels = arrays
    kept = read_table(cache_of(factor * x, labels, None, None, None, tmp_path / "cache").folder).columns["features"]
    errors = np.linalg.norm(kept / np.float64(factor) - x, axis=1) / np.linalg.norm(x, axis=1)
    assert errors.max() <= 2**-11
    if 1e-8 <= factor <= 1e8:
        head = fit(factor * x, labels, {"head.classifier.kind": "ncm"}, split={"calibrate": 0})
        assert (head.predict(factor * x) == labels).mean() > 0.95


def test_what_even_float32_loses_is_told_to_users_of_the_api(arrays):
    with pytest.warns(UserWarning, match="its values are very small"):
        head = fit(arrays[0] * 1e-44, arrays[1], SOLVED)
    assert any("very small" in warning for warning in head.warnings)


@pytest.mark.parametrize("images", [2, 3, 4, 6])
@pytest.mark.parametrize("preset", ["plain", "baseline"])
def test_advice_for_few_images_of_a_class_trains_a_head(images, preset):
    labels = np.repeat(np.arange(4), images)
    x = 8 * np.eye(4)[labels] + np.random.default_rng(0).normal(0, 1, (len(labels), 4))
    quick = {"train.schedule.min_steps": 20, "train.schedule.epochs": 2}
    for asked in (None, {"test": 0}, {"folds": 9, "test": 0}):
        with pytest.raises(ValueError, match=r"Cross-validate: set") as told:
            fit(x, labels, quick, preset=preset, split=asked)
        advised = dict(re.findall(r"(test|folds)=(\d+)(?= and | of the split)", str(told.value)))
        head = fit(x, labels, quick, preset=preset, split=(asked or {}) | {k: int(v) for k, v in advised.items()})
        assert head.metrics["accuracy"] is not None


@pytest.mark.parametrize("spec", KINDS, ids=lambda spec: str(next(iter(spec.values()))))
def test_one_class_is_nothing_to_learn(arrays, spec):
    x = arrays[0]
    with pytest.raises(ValueError, match=r"all .* training rows are of class '7'"):
        fit(x, np.full(90, 7), spec)
    with pytest.raises(ValueError, match="Training needs at least two classes"):
        compare(x, np.full(90, "a"), {"a": {}, "b": SOLVED}, seeds=(0,))
    with (
        pytest.warns(UserWarning, match="has no row"),
        pytest.raises(ValueError, match="Training needs at least two classes"),
    ):
        fit(x, np.zeros(90, int), spec, class_names=["a", "b"])


def test_a_temperature_without_an_optimum_is_told_by_fit_and_compare(arrays):
    x, labels = arrays
    spec = SOLVED | {"posthoc.calibration.kind": "temperature"}
    # A refitted head reports its own temperature, not that of the run before.
    for refit in (True, False):
        head = fit(x, labels, spec, refit=refit)
        (told,) = [warning for warning in head.warnings if "calibration rows are classified correctly" in warning]
        assert told in str(head)
        assert f"a temperature of {head.head.temperature:.3g} gives" in told
    found = compare(x, labels, {"solved": spec, "plain": {"posthoc.calibration.kind": "none"}}, seeds=(0, 1))
    (note,) = [note for note in found.comparison.notes if "calibration rows are classified correctly" in note]
    assert note == f"solved, seed 0, 1: {told}."
    assert "nothing limits the confidence that a temperature of 0." in told
    assert str(found).count(note) == 1
    assert all(str(found).count(warning) == 1 for warning in found.warnings)
    generator = np.random.default_rng(0)
    near = x + generator.normal(0, 4, x.shape)
    assert not any("calibration rows" in warning for warning in fit(near, labels, spec).warnings)


def test_predictions_are_moved_to_a_prior_by_label_or_in_order(arrays):
    x, labels = arrays
    named = np.array([30, 10, 20])[labels]
    head = fit(x, named, SOLVED)
    plain, moved = head.predict_proba(x), head.predict_proba(x, {10: 0, 20: 1, 30: 1})
    assert (moved[:, 0] == 0).all()
    np.testing.assert_allclose(moved[:, 1:], plain[:, 1:] / plain[:, 1:].sum(1, keepdims=True), atol=1e-3)
    np.testing.assert_array_equal(head.predict_proba(x, [0, 1, 1]), moved)
    np.testing.assert_array_equal(head.predict_proba(x, {"10": 0, "20": 1, "30": 1}), moved)
    assert set(head.predict(x, np.array([0, 1, 1])).tolist()) == {20, 30}
    with pytest.raises(ValueError, match=r"\['30'\] are missing"):
        head.predict(x, {10: 1, 20: 1})
    with pytest.raises(ValueError, match="shares of at least 0"):
        head.predict_proba(x, [1, 1])


PAIRS = [
    ("caf\u00e9", "cafe\u0301"),
    ("elm tree", "elm\u00a0tree"),
    ("fir", "fir\u200b"),
    ("oak", "oak "),
    ("Ash", "ash"),
]


@pytest.mark.parametrize("pair", PAIRS, ids=ascii)
def test_names_that_look_alike_are_told_with_the_pair(arrays, pair):
    x, labels = arrays
    with pytest.warns(UserWarning, match="differ only by case"):
        head = fit(x, [(*pair, "other")[label] for label in labels], SOLVED)
    (told,) = [warning for warning in head.warnings if "differ only by case" in warning]
    assert all(ascii(name) in told for name in pair)
    assert set(head.predict(x).tolist()) == {*pair, "other"}


@pytest.mark.parametrize("blank", [" ", "\u00a0", "\u200b", "\ufeff\t"], ids=ascii)
def test_labels_and_class_names_that_show_nothing_are_missing(arrays, blank):
    x, labels = arrays
    with pytest.raises(ValueError, match="30 of 90 are missing"):
        fit(x, [("a", "b", blank)[label] for label in labels], SOLVED)
    with pytest.raises(ValueError, match="entry 2 is blank"):
        fit(x, labels, SOLVED, class_names=["a", "b", blank])


def test_words_for_unknown_groups_are_told(arrays):
    x, labels = arrays
    groups = ["NA" if row < 30 else f"g{row // 2}" for row in range(90)]
    with pytest.warns(UserWarning, match="were treated as missing: 30 × NA|30 of 90 images have no group"):
        head = fit(x, labels, SOLVED, groups=groups)
    assert sum(head.record.data.groups.values()) == 60
