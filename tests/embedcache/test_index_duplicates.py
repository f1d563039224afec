"""Copies and near copies: pairs, groups and chains."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_tables import at, labelled, table_of

from frostbench.embedcache import index
from frostbench.embedcache.index import pairs
from frostbench.embedcache.index.rows import UnitRows
from frostbench.embedcache.storage.store import CacheError


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.7, 0.9, 0.97]))
def test_near_pairs_are_all_pairs_above_the_threshold(seed: int, threshold: float) -> None:
    x = labelled(int(np.random.default_rng(seed).integers(2, 90)), dim=6, seed=seed, classes=9).columns["x"]
    whole = pairs.QUERY_ROWS
    try:
        pairs.QUERY_ROWS = 17
        found = pairs.near_pairs(UnitRows(x), threshold)
    finally:
        pairs.QUERY_ROWS = whole
    wide = x.astype(np.float64)
    unit = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    cosine = np.triu(unit @ unit.T, 1)
    wanted = {(int(a), int(b)) for a, b in np.argwhere(cosine >= threshold + 1e-6)}
    got = set(zip(found.first.tolist(), found.second.tolist(), strict=True))
    assert wanted <= got
    assert got <= {(int(a), int(b)) for a, b in np.argwhere(cosine >= threshold - 1e-6)}
    near = np.abs(cosine - threshold) < pairs.MARGIN - 1e-6
    assert found.below + found.above >= near.sum()
    assert found.below <= (np.abs(cosine - threshold) < pairs.MARGIN + 1e-6).sum()


def test_groups_of_copies_and_near_copies_are_told_apart() -> None:
    degree = np.pi / 180
    x = at(*(degree * a for a in (0, 0, 3, 90, 91, 200, 300, 300)))
    content = ["a", "a", "b", "c", "d", "e", "f", "f"]
    found = index.duplicates(table_of(x, labels=[0, 0, 1, 0, 0, 0, 2, 2], content=content), 0.99)
    assert found.groups["kind"].tolist() == ["both", "near", "identical"]
    assert found.groups["rows"].tolist() == [3, 2, 2]
    assert found.groups["contents"].tolist() == [2, 2, 1]
    assert found.groups["classes"].tolist() == ["c0, c1", "c0", "c2"]
    assert found.groups["widest"].to_numpy() == pytest.approx(np.cos([3 * degree, degree, 0]), abs=1e-3)
    assert found.group.tolist() == [0, 0, 0, 1, 1, -1, 2, 2]
    assert found.rows["copy"].tolist() == [0, 0, 1, 0, 1, 0, 0]
    assert found.pairs == 2
    assert not found.groups["chain"].any()


def test_a_chain_is_warned_of() -> None:
    step = np.arccos(0.98)
    found = index.duplicates(table_of(at(*(0.99 * step * i for i in range(6)))), 0.98)
    assert found.groups["chain"].tolist() == [True]
    assert found.groups["widest"][0] == pytest.approx(np.cos(0.99 * step * 5), abs=2e-3)
    assert "1 group is a chain" in found.warnings[0]
    assert "group 0 with 6 rows" in found.warnings[0]
    assert not index.duplicates(table_of(at(0, 0.99 * step, 1.98 * step)), 0.98).groups["chain"].any()


def test_pairs_near_the_threshold_are_counted() -> None:
    table = table_of(np.concatenate([at(0, np.arccos(0.982)), 10 * at(2, 2 + np.arccos(0.977)), at(4, 4.05)]))
    found = index.duplicates(table, 0.98)
    assert (found.pairs, found.near_above, found.near_below) == (2, 1, 1)


def test_no_duplicates_is_an_empty_table() -> None:
    found = index.duplicates(table_of(at(0, 1, 2)))
    assert len(found.groups) == len(found.rows) == found.pairs == 0
    assert found.group.tolist() == [-1, -1, -1]
    zero = index.duplicates(table_of(np.zeros((3, 2)), content=["a", "b", "a"]))
    assert (zero.zero, zero.groups["rows"].tolist()) == (3, [2])
    assert "3 rows have a zero vector" in zero.warnings[-1]


def test_a_threshold_that_makes_everything_a_copy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "MOST_PAIRS", 5)
    with pytest.raises(CacheError, match=r"At most 5 pairs .*, but more have a cosine of at least 0.5. Raise"):
        index.duplicates(table_of(at(*np.linspace(0, 0.3, 6))), 0.5)
    with pytest.raises(ValueError, match="must be above 0 and at most 1, got 0"):
        index.duplicates(table_of(at(0, 1)), 0)
