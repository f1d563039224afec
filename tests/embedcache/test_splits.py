import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from sklearn.model_selection import StratifiedGroupKFold

from frostbench.embedcache.splits import making
from frostbench.embedcache.splits.cuts import keep_classes_in_train, merge_groups
from frostbench.embedcache.splits.making import ROLES, SplitSpec, hash_roles, load_or_make_split, make_split, read_split
from frostbench.embedcache.storage.store import CacheError
from frostbench.embedcache.table import FeatureTable, read_table


def make_table(labels: Any, groups: Any = None, content: Any = None, given_split: Any = None) -> FeatureTable:
    n = len(labels)
    content = np.array([f"{i:064x}" for i in range(n)] if content is None else content, dtype=str)
    return FeatureTable(
        ids=np.array([f"{i:05d}" for i in range(n)], dtype=str),
        columns={},
        labels=np.array(labels, dtype=np.int64),
        class_names=tuple(f"c{i}" for i in range(max(labels) + 1)),
        groups=content if groups is None else np.array(groups, dtype=str),
        has_groups=groups is not None,
        content=content,
        split=None if given_split is None else np.array(given_split, dtype=str),
        recipes={},
    )


def permuted(table: FeatureTable, order: np.ndarray) -> FeatureTable:
    return FeatureTable(
        table.ids[order],
        {},
        table.labels[order],
        table.class_names,
        table.groups[order],
        table.has_groups,
        table.content[order],
        None if table.split is None else table.split[order],
        {},
    )


def long_tail(seed: int = 0, groups: bool = True) -> FeatureTable:
    rng = np.random.default_rng(seed)
    sizes = [150, 80, 40, 20, 12, 8, 4]
    labels, names = [], []
    for label, size in enumerate(sizes):
        while size > 0:
            take = min(size, int(rng.integers(1, 4)))
            labels += [label] * take
            names += [f"g{len(set(names))}"] * take
            size -= take
    return make_table(labels, names if groups else None)


def straddling(groups: np.ndarray, roles: np.ndarray) -> list[str]:
    return [g for g in np.unique(groups) if len(set(roles[groups == g])) > 1]


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(0, 60)), min_size=40, max_size=90),
    stated=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_groups_and_copies_stay_whole_and_train_keeps_every_class(rows: Any, stated: bool, seed: int) -> None:
    labels, groups, content = (list(column) for column in zip(*rows, strict=True))
    table = make_table(labels, groups if stated else None, content)
    try:
        split = make_split(table, SplitSpec(seed=seed))
    except CacheError as error:
        assert " left and the largest" in str(error) or "got none" in str(error)  # noqa: PT017
        return
    assert set(split.roles) <= set(ROLES)
    assert len(split.roles) == len(labels)
    assert straddling(table.groups, split.roles) == []
    assert straddling(table.content, split.roles) == []
    assert set(table.labels[split.roles == "train"]) == set(labels)
    assert sum(split.report.counts.values()) == len(labels)
    order = np.random.default_rng(seed).permutation(len(labels))
    again = make_split(permuted(table, order), SplitSpec(seed=seed))
    np.testing.assert_array_equal(again.roles, split.roles[order])
    assert again.hash == split.hash


@pytest.mark.parametrize("groups", [True, False])
def test_shares_of_all_rows_and_of_each_large_class(groups: bool) -> None:
    table = long_tail(groups=groups)
    split = make_split(table, SplitSpec())
    for role, share in {"test": 0.2, "select": 0.15, "calibrate": 0.1, "train": 0.55}.items():
        assert np.mean(split.roles == role) == pytest.approx(share, abs=0.03)
        for label in (0, 1, 2):
            assert np.mean(split.roles[table.labels == label] == role) == pytest.approx(share, abs=0.07)
        assert split.report.counts[role] == int((split.roles == role).sum())


def test_the_seed_changes_the_split_and_equal_seeds_do_not() -> None:
    table = long_tail()
    hashes = [make_split(table, SplitSpec(seed=seed)).hash for seed in (42, 42, 43)]
    assert hashes[0] == hashes[1] != hashes[2]


def test_each_cut_is_fold_0_of_scikit_learn_with_the_next_seed() -> None:
    table = long_tail()
    groups = merge_groups(table.groups, table.content)
    split = make_split(table, SplitSpec())
    assert split.report.forced == ()
    rest = np.arange(len(groups))
    for role, folds, seed in (("test", 5, 42), ("select", 5, 43), ("calibrate", 6, 44)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cut = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
            held = rest[next(iter(cut.split(rest, table.labels[rest], groups[rest])))[1]]
        np.testing.assert_array_equal(np.flatnonzero(split.roles == role), held)
        rest = np.setdiff1d(rest, held)


def test_copies_join_groups() -> None:
    groups = np.array(["a", "a", "b", "c", "d"])
    content = np.array(["1", "2", "2", "3", "4"])
    assert merge_groups(groups, content).tolist() == [0, 0, 0, 1, 2]


def test_a_class_that_train_lost_gets_a_whole_group_back() -> None:
    labels = np.array([0, 0, 1, 1, 2, 2, 0])
    groups = np.array([0, 1, 2, 2, 3, 4, 2])
    roles = np.array(["train", "test", "test", "test", "test", "calibrate", "test"])
    kept, forced = keep_classes_in_train(labels, groups, roles, ROLES)
    assert forced == [1, 2]
    assert kept.tolist() == ["train", "test", "train", "train", "test", "train", "train"]


def test_classes_of_one_group_are_trained_listed_and_missing_elsewhere() -> None:
    single = [label for label in range(1, 9) for _ in range(3)]
    table = make_table([0] * 60 + single, [f"g{i}" for i in range(60)] + [f"only{label}" for label in single])
    split = make_split(table, SplitSpec())
    assert split.report.forced
    for name in split.report.forced:
        assert (split.roles[table.labels == table.class_names.index(name)] == "train").all()
    assert split.report.missing["train"] == ()
    assert set(split.report.forced) <= set(split.report.missing["test"])
    assert split.report.small == tuple(f"c{label}" for label in range(1, 9))


def test_missing_groups_are_warned_of() -> None:
    assert "No groups are given" in make_split(long_tail(groups=False), SplitSpec()).report.warnings[0]
    assert make_split(long_tail(), SplitSpec()).report.warnings == ()


@pytest.mark.parametrize("groups", [["one"] * 30, [f"g{i % 3}" for i in range(30)]])
def test_too_few_groups_is_a_clear_error(groups: list[str]) -> None:
    told = "Cross-validate: set test=0 and folds=3 of" if len(set(groups)) > 1 else "nothing can be held out"
    with pytest.raises(
        CacheError, match=rf"share of 0.2 for 'test' needs 5 groups.* (group is|groups are) left.*{told}"
    ):
        make_split(make_table([0, 1] * 15, groups), SplitSpec())


def test_share_0_leaves_a_role_empty() -> None:
    split = make_split(long_tail(), SplitSpec(test=0, calibrate=0))
    assert set(split.roles) == {"train", "select"}


@pytest.mark.parametrize("wrong", [{"test": 0.6}, {"test": 0.5, "select": 0.3}, {"seed": -1}, {"source": "off"}])
def test_spec_bounds(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SplitSpec(**wrong)


def test_every_spec_field_has_a_sentence() -> None:
    assert all(field.description for name, field in SplitSpec.model_fields.items() if name != "kind")


def test_given_test_rows_stay_and_the_rest_is_cut_from_train() -> None:
    labels = [0, 1] * 50
    stated = ["Test" if i < 20 else "train" for i in range(100)]
    split = make_split(make_table(labels, given_split=stated), SplitSpec(source="given"))
    assert (split.roles[:20] == "test").all()
    assert not (split.roles[20:] == "test").any()
    assert split.report.counts["select"] == pytest.approx(15, abs=2)
    assert split.report.counts["calibrate"] == pytest.approx(10, abs=2)
    stated = ["test"] * 20 + ["val"] * 30 + ["train"] * 50
    roles = make_split(make_table(labels, given_split=stated), SplitSpec(source="given")).roles
    assert (roles[20:50] == "select").all()
    assert not (roles[50:] == "select").any()


def test_given_without_validation_or_test_rows_cuts_what_is_not_named() -> None:
    split = make_split(make_table([0, 1] * 50, given_split=["train"] * 100), SplitSpec(source="given"))
    assert set(split.roles) == set(ROLES)


def test_given_leaks_are_reported_not_repaired() -> None:
    labels = [0] * 40 + [1]
    content = [*range(39), 0, 50]
    stated = ["train"] * 39 + ["test"] * 2
    report = make_split(make_table(labels, None, content, stated), SplitSpec(source="given")).report
    assert report.warnings[1] == "The given split divides 1 group or set of identical images between roles."
    assert report.warnings[2] == "The given split leaves 1 class without a training row."
    assert report.missing["train"] == ("c1",)


@pytest.mark.parametrize("stated", [None, ["train", ""] * 20, ["train", "holdout"] * 20, ["test"] * 40])
def test_a_given_split_must_be_complete(stated: list[str] | None) -> None:
    with pytest.raises(CacheError, match=r"source=given needs|A given split must"):
        make_split(make_table([0, 1] * 20, given_split=stated), SplitSpec(source="given"))


def test_an_empty_table_cannot_be_split(make_cache) -> None:
    path = make_cache(bad=range(7))
    with pytest.raises(
        CacheError, match=r"A split needs rows, but this table has none\. Fix what `frostbench cache bad` lists"
    ):
        load_or_make_split(path, read_table(path), SplitSpec())


LABELS = ("ant", "bee") * 20


def test_a_split_is_written_once_and_then_read(make_cache, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_cache(labels=LABELS)
    table = read_table(path)
    made = load_or_make_split(path, table, SplitSpec())
    monkeypatch.setattr(making, "make_split", lambda *_: pytest.fail("was computed again"))
    read = load_or_make_split(path, read_table(path, ["cls"]), SplitSpec())
    np.testing.assert_array_equal(read.roles, made.roles)
    assert (read.hash, read.report) == (made.hash, made.report)
    [file] = (path / "splits").iterdir()
    rows = pq.read_table(file, partitioning=None).to_pydict()
    assert rows["role"] == made.roles.tolist()
    assert rows["label"] == list(LABELS)
    assert rows["id"] == table.ids.tolist()
    assert hash_roles(np.array(rows["id"]), np.array(rows["role"])) == made.hash


def test_another_spec_or_table_has_another_file(make_cache) -> None:
    path = make_cache(labels=LABELS)
    table = read_table(path)
    keys = {
        making.split_path(path, table, SplitSpec()),
        making.split_path(path, table, SplitSpec(seed=1)),
        making.split_path(path, read_table(make_cache(labels=("bee", *LABELS[1:]))), SplitSpec()),
    }
    assert len(keys) == 3
    one, two = (read_table(make_cache(labels=LABELS, splits=["train"] * 39 + [s])) for s in ("train", "test"))
    spec = SplitSpec(source="given")
    assert making.split_path(path, one, spec) != making.split_path(path, two, spec)


def test_a_changed_split_file_is_refused(make_cache) -> None:
    path = make_cache(labels=LABELS)
    load_or_make_split(path, read_table(path), SplitSpec())
    [file] = (path / "splits").iterdir()
    rows = pq.read_table(file, partitioning=None)
    role = rows["role"].to_pylist()
    moved = rows.set_column(3, rows.schema.field("role"), [["test" if r == "train" else r for r in role]])
    pq.write_table(moved, file)
    with pytest.raises(CacheError, match="must not be changed, but"):
        read_split(Path(file))


def write_by_pandas(file: Path) -> None:
    rows = pq.read_table(file, partitioning=None).to_pandas()
    rows.to_parquet(file)


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def lose_roles(file: Path) -> None:
    pq.write_table(pq.read_table(file, partitioning=None).drop_columns(["role"]), file)


@pytest.mark.parametrize("harm", [write_by_pandas, cut_short, lose_roles])
def test_a_damaged_split_file_is_told_with_its_path_and_what_to_do(make_cache, harm: Any) -> None:
    path = make_cache(labels=LABELS)
    table = read_table(path)
    load_or_make_split(path, table, SplitSpec())
    [file] = (path / "splits").iterdir()
    harm(file)
    with pytest.raises(CacheError, match=rf"but {file} .*Delete it. The next run makes a new split"):
        load_or_make_split(path, table, SplitSpec())
