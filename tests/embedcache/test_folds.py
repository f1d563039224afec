"""Folds: whole groups, every row once, classes known to each training part, and files that last."""

import hashlib
import json
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from sklearn.model_selection import StratifiedGroupKFold

from frostbench.embedcache.splits import making
from frostbench.embedcache.splits.folds import make_folds, single_groups, small_classes, unlearnt
from frostbench.embedcache.splits.making import SplitSpec, load_or_make_split, make_split, read_split, split_path
from frostbench.embedcache.storage.store import CacheError
from frostbench.embedcache.table import FeatureTable, read_table

LABELS = ("ant", "bee", "ant", "bee") * 10


def make_table(labels: Any, groups: Any = None, content: Any = None, given_split: Any = None) -> FeatureTable:
    content = np.array([f"{i:064x}" for i in range(len(labels))] if content is None else content, dtype=str)
    return FeatureTable(
        ids=np.array([f"{i:05d}" for i in range(len(labels))], dtype=str),
        columns={},
        labels=np.array(labels, dtype=np.int64),
        class_names=tuple(f"c{i}" for i in range(max(labels) + 1)),
        groups=content if groups is None else np.array(groups, dtype=str),
        has_groups=groups is not None,
        content=content,
        split=None if given_split is None else np.array(given_split, dtype=str),
        recipes={},
    )


def three_a_class(classes: int = 12) -> FeatureTable:
    labels = [label for label in range(classes) for _ in range(3)]
    return make_table(labels, [f"g{i}" for i in range(len(labels))])


def in_several_folds(names: np.ndarray, folds: np.ndarray) -> list[str]:
    return [name for name in np.unique(names) if len(set(folds[names == name])) > 1]


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(0, 60)), min_size=30, max_size=80),
    spec=st.sampled_from(
        [SplitSpec(folds=4, repeats=2), SplitSpec(folds=2, test=0), SplitSpec(rule="leave_one_group_out", test=0)]
    ),
    stated=st.booleans(),
)
def test_no_group_or_copy_is_on_both_sides_of_a_fold_and_every_row_is_held_out_once(
    rows: Any, spec: SplitSpec, stated: bool
) -> None:
    labels, groups, content = (list(column) for column in zip(*rows, strict=True))
    table = make_table(labels, groups if stated else None, content)
    try:
        split = make_split(table, spec)
    except CacheError as error:
        known = (" left and the largest", "needs 2 to", "['test'] got none", "folds needs rows, but only")
        assert any(words in str(error) for words in known)  # noqa: PT017
        return
    assert split.folds is not None
    assert split.folds.shape == (spec.repeats, len(labels))
    assert set(split.roles) <= {"train", "test"}
    for folds in split.folds:
        assert ((folds == -1) == (split.roles == "test")).all()
        pool = folds >= 0
        assert in_several_folds(table.groups[pool], folds[pool]) == []
        assert in_several_folds(table.content[pool], folds[pool]) == []
        assert set(folds[pool]) == set(range(folds.max() + 1))
        lost = [
            label
            for label in set(labels)
            for fold in set(folds[pool])
            if not ((folds != fold) & pool & (table.labels == label)).any()
        ]
        told = " ".join(split.report.warnings)
        assert all(f"c{label}" in told for label in lost)
    again = make_split(table, spec)
    np.testing.assert_array_equal(again.folds, split.folds)
    assert again.hash == split.hash


def test_the_order_of_rows_does_not_matter() -> None:
    table = three_a_class()
    order = np.random.default_rng(0).permutation(len(table.ids))
    moved = FeatureTable(
        table.ids[order],
        {},
        table.labels[order],
        table.class_names,
        table.groups[order],
        True,
        table.content[order],
        None,
        {},
    )
    one, other = (make_split(each, SplitSpec(folds=3, test=0)) for each in (table, moved))
    assert one.folds is not None
    np.testing.assert_array_equal(one.folds[:, order], other.folds)
    assert one.hash == other.hash


def test_three_images_a_class_are_spread_evenly_and_no_share_is_needed() -> None:
    table = three_a_class()
    split = make_split(table, SplitSpec(folds=3, test=0, repeats=2))
    assert split.report.counts == {"train": 36, "select": 0, "calibrate": 0, "test": 0}
    assert split.folds is not None
    for folds in split.folds:
        for label in range(12):
            assert sorted(folds[table.labels == label]) == [0, 1, 2]
    assert (split.folds[0] != split.folds[1]).any()
    assert split.report.warnings[0].startswith("Cross-validated, 3 folds, 2 repeats")
    with pytest.raises(CacheError, match=r"4 folds need .* largest class has 3. Cross-validate: set folds=3 of"):
        make_split(table, SplitSpec(folds=4, test=0))


@pytest.mark.parametrize("classes", [2, 3, 12])
@pytest.mark.parametrize("images", [1, 2, 3, 4, 5, 6, 8])
@pytest.mark.parametrize("in_group", [0, 1, 2])
def test_advice_on_a_split_that_is_not_possible_ends(classes: int, images: int, in_group: int) -> None:
    """Whatever is asked of few images, what the message says to set gives a split."""
    labels = np.repeat(np.arange(classes), images).tolist()
    groups = [f"g{row // in_group}" for row in range(len(labels))] if in_group else None
    table = make_table(labels, groups)
    for asked in ({}, {"test": 0}, {"folds": 4}, {"folds": 9, "test": 0}, {"test": 0, "select": 0.3}):
        try:
            make_split(table, SplitSpec(**asked))
        except CacheError as error:
            follow(table, str(error), asked)


def follow(table: FeatureTable, told: str, asked: dict[str, Any]) -> None:
    """Do what a message says."""
    found = re.search(r"Cross-validate: set (test=0 and )?folds=(\d+) of the split", told)
    units = table.groups if table.has_groups else table.content
    apart = [len(np.unique(units[table.labels == label])) for label in np.unique(table.labels)]
    if found is None:
        assert "so nothing can be held out" in told
        assert max(apart) < 2
        return
    test = {"test": 0.0 if found[1] else asked.get("test", SplitSpec().test)}
    split = make_split(table, SplitSpec(folds=int(found[2]), **test))
    assert split.folds is not None
    assert set(split.folds[0][split.folds[0] >= 0].tolist()) == set(range(int(found[2])))


def test_an_empty_fold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, groups = np.zeros(12, dtype=np.int64), np.array([0] * 10 + [1, 2])
    monkeypatch.setattr("frostbench.embedcache.splits.folds.cut", lambda *_: np.array([0] * 10 + [1, 1]))
    with pytest.raises(CacheError, match=r"3 folds needs rows, but only 2 got some.*set folds=2 of the split"):
        make_folds(labels, groups, SplitSpec(folds=3))


def test_folds_are_those_of_scikit_learn() -> None:
    generator = np.random.default_rng(1)
    groups = np.repeat(np.arange(60), 3)
    labels = np.repeat(generator.integers(0, 3, 60), 3)
    found = make_folds(labels, groups, SplitSpec(folds=5, repeats=2))
    for repeat in range(2):
        cut = StratifiedGroupKFold(5, shuffle=True, random_state=43 + repeat).split(labels, labels, groups)
        for fold, (_, held) in enumerate(cut):
            np.testing.assert_array_equal(np.flatnonzero(found[repeat] == fold), held)


def test_leaving_out_each_group() -> None:
    table = make_table([0, 0, 1, 1, 2], ["a", "a", "b", "c", "d"], content=["1", "2", "3", "4", "3"])
    split = make_split(table, SplitSpec(rule="leave_one_group_out", test=0))
    assert split.folds is not None
    # The image of b is also that of d.
    assert split.folds.tolist() == [[0, 0, 1, 2, 1]]
    assert "2 classes have one group" in split.report.warnings[1]
    assert "c0, c2." in split.report.warnings[1]
    single = make_split(make_table([0, 0, 1, 1, 1], list("aabcd")), SplitSpec(rule="leave_one_group_out", test=0))
    told = "1 class has one group and cannot be learned while it is held out, so its rows count as errors: c0."
    assert told in single.report.warnings
    with pytest.raises(CacheError, match="needs 2 to 1000 groups outside the test set, got 1"):
        make_split(make_table([0, 1], ["a", "a"]), SplitSpec(rule="leave_one_group_out", test=0))


def test_a_class_of_two_groups_is_never_lost_to_one_fold() -> None:
    labels = np.array([0] * 12 + [1, 1, 1, 1])
    groups = np.array([*range(12), 20, 20, 21, 21])
    for seed in range(40):
        folds = make_folds(labels, groups, SplitSpec(folds=2, seed=seed))[0]
        assert unlearnt(labels, groups, folds) == []
    assert unlearnt(labels, groups, np.zeros(16, dtype=np.int64)) == [0, 1]


def test_groups_move_where_a_class_lay_in_one_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, groups = np.array([0, 0, 0, 0, 1, 1, 2]), np.array([0, 1, 2, 3, 4, 5, 6])
    monkeypatch.setattr("frostbench.embedcache.splits.folds.cut", lambda *_: np.array([0, 0, 1, 1, 0, 0, 1]))
    folds = make_folds(labels, groups, SplitSpec(folds=2))[0]
    assert sorted(folds[4:6]) == [0, 1]
    assert (folds[[0, 1, 2, 3, 6]] == [0, 0, 1, 1, 1]).all()
    assert (single_groups(labels, groups), small_classes(labels, groups, 3)) == ([2], [1, 2])


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"folds": 5, "select": 0.2}, "Cross-validation has no validation and calibration rows"),
        ({"rule": "leave_one_group_out", "calibrate": 0.3}, "Cross-validation has no validation and calibration rows"),
        ({"rule": "leave_one_group_out", "folds": 5}, "leave_one_group_out makes one fold per group"),
        ({"rule": "leave_one_group_out", "repeats": 2}, "leave_one_group_out makes one fold per group"),
        ({"folds": 51}, "less than or equal to 50"),
        ({"folds": 5, "test": 0.6}, "less than or equal to 0.5"),
    ],
)
def test_spec_bounds(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        SplitSpec(**wrong)


def test_given_test_rows_stay_and_all_others_are_in_the_pool() -> None:
    stated = ["test"] * 8 + ["val"] * 12 + ["train"] * 20
    split = make_split(make_table([0, 1] * 20, given_split=stated), SplitSpec(source="given", folds=4))
    assert (split.roles == ["test"] * 8 + ["train"] * 32).all()
    assert split.folds is not None
    assert (split.folds[0, :8] == -1).all()
    assert np.bincount(split.folds[0, 8:]).tolist() == [8, 8, 8, 8]


def test_folds_are_written_once_hashed_and_read(make_cache, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_cache(labels=LABELS)
    table, spec = read_table(path), SplitSpec(folds=4, repeats=2)
    made = load_or_make_split(path, table, spec)
    assert made.folds is not None
    monkeypatch.setattr(making, "make_split", lambda *_: pytest.fail("was computed again"))
    read = load_or_make_split(path, table, spec)
    np.testing.assert_array_equal(read.folds, made.folds)
    np.testing.assert_array_equal(read.roles, made.roles)
    assert (read.hash, read.report) == (made.hash, made.report)
    [file] = (path / "splits").iterdir()
    rows = sorted([i, r, f] for i, r, f in zip(table.ids.tolist(), made.roles, made.folds.T.tolist(), strict=True))
    assert made.hash == hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()
    content = pq.read_table(file, partitioning=None)
    other = [[row[0], (row[1] + 1) % 4] if row[0] >= 0 else row for row in made.folds.T.tolist()]
    at = content.column_names.index("folds")
    column = pa.array(other, pa.list_(pa.int32()))
    pq.write_table(content.set_column(at, content.schema.field("folds"), column), file)
    with pytest.raises(CacheError, match="must not be changed, but"):
        read_split(file)


def test_splits_without_folds_keep_their_file_and_hash(make_cache) -> None:
    path = make_cache(labels=LABELS)
    table = read_table(path)
    for spec, fields in ((SplitSpec(), {}), (SplitSpec(seed=7, select=0.2), {"seed": 7, "select": 0.2})):
        key = json.dumps([{"kind": "split"} | fields, table.rows_hash, None], sort_keys=True)
        assert split_path(path, table, spec).stem == hashlib.sha256(key.encode()).hexdigest()[:16]
    split = load_or_make_split(path, table, SplitSpec())
    assert split.folds is None
    pairs = sorted([i, r] for i, r in zip(table.ids.tolist(), split.roles.tolist(), strict=True))
    assert split.hash == hashlib.sha256(json.dumps(pairs, separators=(",", ":")).encode()).hexdigest()
    content = pq.read_table(split_path(path, table, SplitSpec()), partitioning=None)
    assert content.column_names == ["id", "group", "label", "role"]


def test_what_is_not_read_makes_no_other_split(make_cache) -> None:
    path = make_cache(labels=LABELS)
    table = read_table(path)

    def name(**fields: Any) -> str:
        return split_path(path, table, SplitSpec(**fields)).stem

    assert name(folds=5) == name(folds=5, select=0, calibrate=0)
    assert name() == name(repeats=3) == name(folds=1)
    assert len({name(), name(folds=5), name(folds=4), name(folds=5, repeats=2), name(rule="leave_one_group_out")}) == 5
