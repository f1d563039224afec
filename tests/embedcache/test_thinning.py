"""Long tails made by leaving out training rows: `split.imbalance`."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from frostbench.embedcache.splits.making import SplitSpec, load_or_make_split, make_split, read_split, split_path
from frostbench.embedcache.splits.thinning import largest_ratio, thin_classes
from frostbench.embedcache.storage.store import CacheError
from frostbench.embedcache.table import FeatureTable


def table_of(sizes: list[int], times: bool = False) -> FeatureTable:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    content = np.array([f"{i:064x}" for i in range(len(labels))])
    return FeatureTable(
        ids=np.array([f"{i:05d}" for i in range(len(labels))]),
        columns={},
        labels=labels,
        class_names=tuple(f"c{i}" for i in range(len(sizes))),
        groups=content,
        has_groups=False,
        content=content,
        split=None,
        recipes={},
        times=np.array([f"2026-01-01T00:00:{i % 60:02d}" for i in range(len(labels))]) if times else None,
    )


def sizes_of(table: FeatureTable, roles: Any, role: str = "train") -> list[int]:
    return np.bincount(table.labels[roles == role], minlength=len(table.class_names)).tolist()


def cut(sizes: list[int], ratio: float) -> list[int]:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    roles, _ = thin_classes(labels, np.full(len(labels), "train", dtype="<U9"), ratio, 0)
    return np.bincount(labels[roles == "train"], minlength=len(sizes)).tolist()


def test_equal_classes_get_the_profile_of_cifar_lt():
    # img_num = n · ratio^(-c / (C - 1)), as in the code of LDAM (imbalance_cifar.py), for n = 500, C = 10, ratio 100
    expected = [int(500 * 0.01 ** (c / 9)) for c in range(10)]
    assert expected == [500, 299, 179, 107, 64, 38, 23, 13, 8, 5]
    assert cut([500] * 10, 100) == expected


def test_a_ratio_of_one_makes_classes_equal():
    assert cut([70, 20, 45], 1) == [20, 20, 20]


def test_classes_that_are_more_imbalanced_lose_rows_of_large_classes():
    # The smallest class keeps its 4 rows, so the largest has 40; the middle one sqrt(10) times fewer.
    assert cut([900, 4, 300], 10) == [40, 4, 12]


def test_the_ratio_is_met_where_the_smallest_class_has_more_rows_than_it_needs():
    sizes = cut([1000, 800, 600, 400], 50)
    assert sizes[0] / sizes[-1] == pytest.approx(50, rel=0.05)
    assert sizes[0] == 1000


def test_other_roles_keep_their_rows_and_the_note_states_the_sizes():
    table = table_of([200, 200, 200])
    full, thin = make_split(table, SplitSpec()), make_split(table, SplitSpec(imbalance=16))
    for role in ("select", "calibrate", "test"):
        assert (full.roles == role).tolist() == (thin.roles == role).tolist()
    assert not (thin.roles == "train")[full.roles != "train"].any()
    sizes, most = sizes_of(table, thin.roles), max(sizes_of(table, full.roles))
    assert sorted(sizes, reverse=True) == [most, most // 4, most // 16]
    assert thin.report.counts["train"] == sum(sizes)
    assert any(
        f"{sum(sizes)} of {full.report.counts['train']} training rows stay, {max(sizes)} of the largest class and "
        f"{min(sizes)} of the smallest" in note
        for note in thin.report.warnings
    )
    assert thin.hash != full.hash


def test_steeper_tails_keep_subsets():
    table = table_of([300, 300, 300, 300])
    kept = [set(np.flatnonzero(make_split(table, SplitSpec(imbalance=r)).roles == "train")) for r in (2, 10, 100)]
    assert kept[0] > kept[1] > kept[2]


def test_the_order_of_the_table_does_not_matter_and_the_seed_does():
    table = table_of([120, 90, 60])
    order = np.random.default_rng(0).permutation(len(table.ids))
    other = FeatureTable(
        table.ids[order],
        {},
        table.labels[order],
        table.class_names,
        table.groups[order],
        False,
        table.content[order],
        None,
        {},
    )
    spec = SplitSpec(imbalance=8)
    assert make_split(table, spec).roles[order].tolist() == make_split(other, spec).roles.tolist()
    first, second = (make_split(table, SplitSpec(imbalance=8, seed=seed, test=0, select=0)) for seed in (1, 2))
    assert first.roles.tolist() != second.roles.tolist()


def test_folds_leave_unused_rows_out():
    split = make_split(table_of([60, 60, 60]), SplitSpec(imbalance=4, folds=3))
    assert split.folds is not None
    assert ((split.folds >= 0) == (split.roles == "train")).all()
    assert (split.roles == "unused").any()


def test_it_is_stored_under_a_name_of_its_own_and_read_again(tmp_path):
    table = table_of([60, 60])
    plain, steep = SplitSpec(), SplitSpec(imbalance=5)
    assert split_path(tmp_path, table, plain) != split_path(tmp_path, table, steep)
    made = load_or_make_split(tmp_path, table, steep)
    _, roles, _, _ = read_split(split_path(tmp_path, table, steep), steep.identity())
    assert roles.tolist() == made.roles.tolist()
    assert load_or_make_split(tmp_path, table, steep).hash == made.hash


def test_a_split_by_time_reads_the_seed_only_for_the_tail():
    assert SplitSpec(source="time", seed=1).identity() == SplitSpec(source="time", seed=2).identity()
    tails = [SplitSpec(source="time", seed=seed, imbalance=3) for seed in (1, 2)]
    assert tails[0].identity() != tails[1].identity()
    table = table_of([200, 200], times=True)
    assert make_split(table, tails[0]).hash != make_split(table, tails[1]).hash


def test_a_class_must_keep_a_row():
    assert largest_ratio(np.array([9, 4, 3])) == pytest.approx(9)
    assert min(cut([9, 4, 3], 9)) == 1
    with pytest.raises(CacheError, match=r"split\.imbalance=20 it would get 0\.45\. These classes allow at most 9;"):
        cut([9, 4, 3], 20)


def test_the_largest_ratio_may_be_that_of_a_middle_class():
    # A middle class of 2 rows allows 2^(1 / (1 - 1/2)) = 4.
    assert largest_ratio(np.array([100, 2, 1])) == pytest.approx(4)
    assert min(cut([100, 2, 1], 4)) == 1


def test_one_class_has_no_tail():
    with pytest.raises(CacheError, match="at least two classes with training rows, got 1"):
        cut([9], 2)


def test_ratios_below_one_are_refused():
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        SplitSpec(imbalance=0.5)
