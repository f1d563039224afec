"""Splits by time, from a role file, and with near-duplicates on one side."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from index_tables import labelled, table_of
from pydantic import ValidationError

from frostbench.embedcache import index
from frostbench.embedcache.splits.making import SplitSpec, load_or_make_split, make_split, split_path
from frostbench.embedcache.storage.store import CacheError
from frostbench.embedcache.table import FeatureTable, read_table

TIME = SplitSpec(source="time")


def timed(times: list[str], groups: Any = None, labels: Any = None) -> FeatureTable:
    n = len(times)
    table = table_of(np.zeros((n, 2)), [i % 2 for i in range(n)] if labels is None else labels, groups=groups)
    return replace(table, times=np.array(times, dtype=str))


def days(n: int) -> list[str]:
    return [str(day) for day in np.datetime64("2024-01-01") + np.arange(n)]


def test_the_newest_are_tested_then_selected_then_calibrated() -> None:
    times = days(100)
    shuffled = np.random.default_rng(0).permutation(100)
    table = timed([times[i] for i in shuffled])
    roles = make_split(table, TIME).roles[np.argsort(shuffled)]
    assert roles.tolist() == ["train"] * 55 + ["calibrate"] * 10 + ["select"] * 15 + ["test"] * 20
    notes = make_split(table, TIME).report.warnings
    assert "By time: test rows are from 2024-03-21 to 2024-04-09." in notes
    assert notes[-1] == "By time: training rows are up to 2024-02-24."


def test_a_group_is_as_new_as_its_newest_row_and_stays_whole() -> None:
    times = days(40)
    groups = [f"g{i}" for i in range(40)]
    groups[0] = groups[39] = "both"
    roles = make_split(timed(times, groups), TIME).roles
    assert roles[0] == roles[39] == "test"
    newest_trained = max(time for time, role in zip(times, roles, strict=True) if role == "train")
    others = [r for time, r in zip(times[1:39], roles[1:39], strict=True) if time <= newest_trained]
    assert set(others) == {"train"}


def test_rows_of_one_moment_stay_together_and_a_share_that_is_missed_is_told() -> None:
    report = make_split(timed(["2021"] * 50 + ["2022"] * 20 + ["2023"] * 15 + ["2024"] * 35), TIME).report
    assert report.counts == {"train": 50, "select": 15, "calibrate": 20, "test": 35}
    assert "By time: test rows are from 2024 to 2024, 29% of all rows instead of the requested 20%." in report.warnings


def test_classes_that_only_newer_rows_have_are_told_and_not_moved() -> None:
    table = timed(days(20), labels=[0] * 15 + [1] * 5)
    split = make_split(table, SplitSpec(source="time", select=0, calibrate=0, test=0.25))
    assert split.roles.tolist() == ["train"] * 15 + ["test"] * 5
    assert split.report.missing["train"] == ("c1",)
    assert split.report.forced == ()
    assert "The split by time leaves 1 class without a training row." in split.report.warnings


def test_folds_are_cut_from_what_is_older_than_the_test() -> None:
    table = timed(days(100))
    split = make_split(table, SplitSpec(source="time", folds=5))
    assert split.roles.tolist() == ["train"] * 80 + ["test"] * 20
    assert split.folds is not None
    assert (split.folds[0, 80:] == -1).all()
    assert np.bincount(split.folds[0, :80]).tolist() == [16] * 5


def test_times_must_be_there_and_enough() -> None:
    with pytest.raises(CacheError, match=r"a time for each row, but 4 of 4 rows have none. Embed from"):
        make_split(replace(timed(days(4)), times=None), TIME)
    with pytest.raises(CacheError, match="but 2 of 4 rows have none"):
        make_split(timed(["", "2024-01-01", "", "2024-01-02"]), TIME)
    with pytest.raises(CacheError, match=r"and for training, but none of 3 is left for 'calibrate'"):
        make_split(timed(["1", "2", "3"] * 10), TIME)
    with pytest.raises(CacheError, match=r"none of 1 is left for .test."):
        make_split(timed(days(30), ["one"] * 30), TIME)


def test_times_are_part_of_the_key_and_the_seed_is_not(make_cache: Any) -> None:
    labels = ["ant", "bee"] * 20
    first, second = (
        read_table(path)
        for path in (make_cache(labels=labels, times=days(40)), make_cache(labels=labels, times=days(41)[1:]))
    )
    assert first.rows_hash == second.rows_hash
    here = Path("cache")
    assert split_path(here, first, TIME) != split_path(here, second, TIME)
    assert split_path(here, first, SplitSpec()) == split_path(here, second, SplitSpec())
    assert split_path(here, first, TIME) == split_path(here, first, SplitSpec(source="time", seed=7))
    assert split_path(here, first, SplitSpec(source="time", folds=3)) != split_path(
        here, first, SplitSpec(source="time", folds=3, seed=7)
    )


@pytest.fixture
def listed(tmp_path: Path) -> Any:
    def write(rows: dict[str, str], name: str = "roles.csv") -> SplitSpec:
        frame = pd.DataFrame({"id": list(rows), "role": list(rows.values())})
        path = tmp_path / name
        frame.to_csv(path, index=False) if name.endswith(".csv") else frame.to_parquet(path)
        return SplitSpec(roles_from=str(path))

    return write


def wanted(table: FeatureTable) -> dict[str, str]:
    names = ["train", "val", "calibration", "Test"]
    return {str(one): names[i % 4] for i, one in enumerate(table.ids)}


@pytest.mark.parametrize("name", ["roles.csv", "roles.parquet"])
def test_roles_come_from_a_file(listed: Any, name: str) -> None:
    table = labelled(40, classes=2)
    split = make_split(table, listed(wanted(table), name))
    assert split.roles.tolist() == ["train", "select", "calibrate", "test"] * 10


def test_roles_that_the_file_does_not_name_are_cut_from_train(listed: Any) -> None:
    table = labelled(100, classes=2)
    roles = {str(one): "test" if i < 30 else "train" for i, one in enumerate(table.ids)}
    split = make_split(table, listed(roles))
    assert split.roles[:30].tolist() == ["test"] * 30
    assert split.report.counts["select"] == pytest.approx(15, abs=3)
    whole = make_split(table, listed(roles).model_copy(update={"select": 0, "calibrate": 0}))
    assert whole.roles.tolist() == ["test"] * 30 + ["train"] * 70


def test_unlisted_rows_are_an_error_or_have_a_stated_role(listed: Any) -> None:
    table = labelled(40, classes=2)
    roles = dict(list(wanted(table).items())[:28])
    with pytest.raises(CacheError, match=r"but 12 of 40 rows are not in .*roles.csv, such as 'r00028'. Add such rows"):
        make_split(table, listed(roles))
    split = make_split(table, listed(roles).model_copy(update={"unlisted": "calibrate"}))
    assert split.roles[28:].tolist() == ["calibrate"] * 12
    only_tests = dict.fromkeys(list(roles)[:8], "test")
    split = make_split(table, listed(only_tests).model_copy(update={"unlisted": "train", "select": 0, "calibrate": 0}))
    assert split.roles.tolist() == ["test"] * 8 + ["train"] * 32


def test_a_wrong_file_of_roles_is_told(listed: Any, tmp_path: Path) -> None:
    table = labelled(8, classes=2)
    good = wanted(table)
    for rows, told in (
        (good | {"stranger": "train"}, r"1 id is not in the table, such as 'stranger'. The ids of the table look"),
        (good | {"r00000": "holdout"}, r"A role file .* one of .* got \['holdout'\]"),
        (dict.fromkeys(good, "test"), r"at least one row train, but no row has the role train"),
    ):
        with pytest.raises(CacheError, match=told):
            make_split(table, listed(rows))
    twice = tmp_path / "twice.csv"
    twice.write_text("id,role\n" + "".join(f"{one},train\n" for one in [*good, "r00000"]))
    with pytest.raises(CacheError, match="an id occurs twice"):
        make_split(table, SplitSpec(roles_from=str(twice)))
    twice.write_text("name,role\na,train\n")
    with pytest.raises(CacheError, match="must have the columns id and role, but"):
        make_split(table, SplitSpec(roles_from=str(twice)))
    with pytest.raises(CacheError, match=r"nothing.csv does not exist. Check the path. Correct roles_from"):
        make_split(table, SplitSpec(roles_from="nothing.csv"))
    with pytest.raises(ValidationError, match="Roles must come from one source, got"):
        SplitSpec(roles_from="a.csv", source="given")


def test_ids_that_look_like_numbers_stay_text(tmp_path: Path) -> None:
    table = labelled(8, classes=2)
    ids = np.array([f"{i:03d}" for i in range(8)])
    path = tmp_path / "roles.csv"
    path.write_text("id,role\n" + "".join(f"{one},{'test' if i < 2 else 'train'}\n" for i, one in enumerate(ids)))
    split = make_split(replace(table, ids=ids), SplitSpec(roles_from=str(path), select=0, calibrate=0))
    assert split.roles.tolist() == ["test"] * 2 + ["train"] * 6


def test_the_key_knows_the_content_of_the_file_and_not_its_name(make_cache: Any, listed: Any) -> None:
    path = make_cache(labels=["ant", "bee"] * 4)
    table = read_table(path)
    keys = [split_path(path, table, listed(wanted(table), name)) for name in ("a.csv", "b.csv")]
    assert keys[0] == keys[1]
    made = load_or_make_split(path, table, listed(wanted(table), "a.csv"))
    changed = dict(zip(wanted(table), ["test", *list(wanted(table).values())[1:-1], "train"], strict=True))
    assert split_path(path, table, listed(changed, "a.csv")) != keys[0]
    assert load_or_make_split(path, table, listed(changed, "a.csv")).hash != made.hash
    assert split_path(path, table, SplitSpec(unlisted="test")) == split_path(path, table, SplitSpec())


def with_copies(seed: int = 0) -> FeatureTable:
    """Half of the rows have a near-copy, some of them a chain of three."""
    table = labelled(120, classes=3, dim=16)
    rng = np.random.default_rng(seed)
    x = table.columns["x"].astype(np.float64)
    copies = x[:60] + 0.02 * rng.normal(size=(60, 16))
    further = copies[:20] + 0.02 * rng.normal(size=(20, 16))
    labels = [*table.labels, *table.labels[:60], *table.labels[:20]]
    return table_of(np.concatenate([x, copies, further]), labels)


@pytest.mark.parametrize("spec", [{}, {"seed": 3}, {"folds": 4}])
def test_a_split_with_duplicates_has_no_leaks(spec: dict[str, Any]) -> None:
    table = with_copies()
    leaking, clean = (make_split(table, SplitSpec(duplicates=d, **spec)) for d in (None, 0.98))
    assert len(index.leaks(table, leaking.roles).rows) > 10
    assert len(index.leaks(table, clean.roles).rows) == 0
    near = index.near_groups(table)
    assert all(len(set(clean.roles[near == g])) == 1 for g in np.unique(near))
    if clean.folds is not None:
        assert all(len(set(clean.folds[0, near == g])) == 1 for g in np.unique(near))
    told = [note for note in clean.report.warnings if note.startswith("Images with a cosine of at least 0.98")]
    assert told == ["Images with a cosine of at least 0.98 stay together: 60 groups of near-duplicates with 140 rows."]
    assert not any("No groups are given" in note for note in clean.report.warnings)
    assert np.mean(clean.roles == "test") == pytest.approx(0.2, abs=0.05)


def test_near_copies_of_two_groups_join_them() -> None:
    table = with_copies()
    groups = [f"g{i // 2}" for i in range(len(table.ids))]
    table = replace(table, groups=np.array(groups), has_groups=True)
    roles = make_split(table, SplitSpec(duplicates=0.98)).roles
    assert len(index.leaks(table, roles).rows) == 0
    assert all(len(set(roles[table.groups == g])) == 1 for g in set(groups))


def test_the_split_does_not_depend_on_the_order_of_rows() -> None:
    table = with_copies()
    order = np.random.default_rng(2).permutation(len(table.ids))
    moved = replace(
        table,
        ids=table.ids[order],
        columns={"x": table.columns["x"][order]},
        labels=table.labels[order],
        groups=table.groups[order],
        content=table.content[order],
    )
    spec = SplitSpec(duplicates=0.98)
    np.testing.assert_array_equal(make_split(moved, spec).roles, make_split(table, spec).roles[order])


def test_near_copies_are_found_by_the_first_column_whatever_was_read(make_cache: Any) -> None:
    path = make_cache(labels=["ant", "bee"] * 20, models={"cls": "one", "patch_mean": "two"})
    spec = SplitSpec(duplicates=0.999999, test=0.3, select=0, calibrate=0)
    whole, other = read_table(path), read_table(path, ["patch_mean"], stored=True)
    assert split_path(path, whole, spec) == split_path(path, other, spec)
    made = load_or_make_split(path, other, spec)
    expected = make_split(read_table(path, ["cls"]), spec)
    assert made.hash == expected.hash != make_split(other, spec).hash
    [file] = (path / "splits").iterdir()
    assert b'"duplicates": 0.999999' in pq.read_schema(file).metadata[b"embedcache.split"]
    again = make_cache(labels=["ant", "bee"] * 20, models={"cls": "other", "patch_mean": "two"})
    assert split_path(again, read_table(again), spec).name != split_path(path, whole, spec).name
    assert split_path(again, read_table(again), SplitSpec()).name == split_path(path, whole, SplitSpec()).name


def test_keys_of_splits_made_before_these_options_are_the_same(make_cache: Any) -> None:
    table = read_table(make_cache(labels=["ant", "bee"] * 4))
    names = [split_path(Path(), table, spec).stem for spec in (SplitSpec(), SplitSpec(seed=1, folds=3))]
    assert names == ["7fb6f42597eb0ceb", "4308bf630f8d1a8d"]
