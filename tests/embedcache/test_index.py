"""What every question to a table has in common: what is refused, memory, and tables on disk."""

import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest
from index_tables import at, table_of

from frostbench.embedcache import index
from frostbench.embedcache.index import pairs
from frostbench.embedcache.index.rows import column_of, to_unit
from frostbench.embedcache.storage.store import CacheError
from frostbench.embedcache.table import read_table


def test_unknown_ids_and_columns_are_told() -> None:
    table = table_of(at(0, 1, 2))
    with pytest.raises(ValueError, match=r"such as \['r00000'.*, got \['nobody'\]"):
        index.neighbours(table, 1, ids=["nobody"])
    with pytest.raises(CacheError, match=r"one of \['x'\], which .* got 'y'"):
        index.duplicates(table, column="y")


def test_a_table_without_rows_is_refused() -> None:
    empty = table_of(np.empty((0, 2)))
    for ask in (index.neighbours, index.duplicates, index.suspects, index.make_map):
        with pytest.raises(CacheError, match="At least one row is needed, but this table has none"):
            ask(empty)


def test_columns_of_tokens_are_passed_over() -> None:
    table = table_of(at(0, 1, 2))
    table.columns["a_tokens"] = np.zeros((3, 5, 2), np.float16)
    assert column_of(table)[0] == "x"
    with pytest.raises(CacheError, match="which have one vector per image, got 'a_tokens'"):
        column_of(table, "a_tokens")


def test_a_table_on_disk_gives_the_same(make_cache: Any) -> None:
    path = make_cache(labels=["ant", "bee"] * 20, content=[bytes([i % 36]) * 32 for i in range(40)], shard_rows=7)
    here, there = read_table(path), read_table(path, stored=True)
    roles = np.array(["train", "test"] * 20)
    for ask in (
        lambda t: index.neighbours(t, 4).rows,
        lambda t: index.neighbours(t, 4, ids=t.ids[[30, 2, 17]].tolist()).rows,
        lambda t: index.duplicates(t, 0.9999).rows,
        lambda t: index.duplicates(t, 0.9999).groups,
        lambda t: index.leaks(t, roles, 0.9999).rows,
        lambda t: index.leaks(t, roles, 0.9999).conflicts,
        lambda t: index.make_map(t),
    ):
        pd.testing.assert_frame_equal(ask(here), ask(there))


def test_memory_is_that_of_blocks_and_not_of_the_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "QUERY_ROWS", 1000)
    table = table_of(np.random.default_rng(0).normal(size=(6000, 16)))
    tracemalloc.start()
    index.duplicates(table)
    index.neighbours(table, 3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 6000**2 / 10


def test_vectors_of_half_precision_are_divided_by_their_length_without_overflow() -> None:
    x = to_unit(np.array([[60000, 60000], [6e-8, 0]], np.float16))
    np.testing.assert_allclose(x, [[0.5**0.5] * 2, [1, 0]], rtol=1e-6)
    assert x.dtype == np.float32
