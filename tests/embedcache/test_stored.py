"""Columns that stay on disk give the rows that are read into memory at once."""

from pathlib import Path

import numpy as np
import pytest

from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.storage import store
from frostbench.embedcache.storage.store import CacheError
from frostbench.embedcache.storage.stored import stored_column
from frostbench.embedcache.table import read_table

ROWS = 50


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Path], np.ndarray]:
    """Three shards of 29, 0 and 21 rows in row groups of 7, read in batches of 2 rows; and their vectors [50, 3]."""
    monkeypatch.setattr("frostbench.embedcache.storage.files.ROWS_PER_GROUP", 7)
    monkeypatch.setattr("frostbench.embedcache.storage.stored.BATCH_BYTES", 12)
    x = np.random.default_rng(0).standard_normal((ROWS, 3)).astype(np.float16)
    for i, part in enumerate((x[:29], x[:0], x[29:])):
        ids = [f"{i}-{k}" for k in range(len(part))]
        recipes = {"cls": Recipe(provider="external", model="m")}
        store.write_shard(tmp_path, i, ids, [b"\0" * 32] * len(part), {"cls": part}, [], recipes, {"cls": 3})
    return [store.shard_path(tmp_path, i) for i in range(3)], x


@pytest.mark.parametrize(("start", "stop"), [(0, 50), (0, 1), (49, 50), (5, 9), (20, 36), (28, 30), (7, 14), (10, 10)])
def test_a_range_of_rows_crosses_row_groups_and_shards(shards, start: int, stop: int) -> None:
    paths, x = shards
    column = stored_column(paths, "cls", 3)
    assert column.shape == (50, 3)
    assert [g.stop - g.start for g in column.groups] == [7, 7, 7, 7, 1, 7, 7, 7]
    found = column.read(start, stop)
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, x[start:stop])


def test_chosen_rows_are_counted_among_themselves(shards) -> None:
    paths, x = shards
    mask = np.arange(ROWS) % 3 == 1
    mask[14:29] = False
    some = stored_column(paths, "cls", 3).only(mask)
    assert some.shape == (mask.sum(), 3)
    for start, stop in ((0, 12), (0, 4), (3, 7), (11, 12)):
        np.testing.assert_array_equal(some.read(start, stop), x[mask][start:stop])
    fewer = np.arange(mask.sum()) % 2 == 0
    np.testing.assert_array_equal(some.only(fewer).read(0, 6), x[mask][fewer])
    assert some.only(np.zeros(12, bool)).read(0, 0).shape == (0, 3)


def test_a_table_whose_vectors_stay_on_disk_is_the_same_table(make_cache) -> None:
    path = make_cache(bad=(1, 3))
    here, there = read_table(path), read_table(path, stored=True)
    assert there.columns == {}
    assert there.content_hash == here.content_hash
    assert there.ids.tolist() == here.ids.tolist()
    assert list(there.stored) == list(here.columns)
    for name, column in there.stored.items():
        assert column.shape == here.columns[name].shape
        np.testing.assert_array_equal(column.read(0, 5), here.columns[name])
    assert here.stored == {}
    assert read_table(path, ["cls"], stored=True).stored.keys() == {"cls"}


def test_opening_reads_no_vector(make_cache, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_cache()
    monkeypatch.setattr("frostbench.embedcache.storage.stored.StoredColumn.read", None)
    monkeypatch.setattr("frostbench.embedcache.table.read_vectors", None)
    assert read_table(path, stored=True).stored["cls"].shape == (7, 4)


def test_verifying_finds_a_flipped_bit_that_the_manifest_does_not_know(make_cache) -> None:
    path = make_cache(dims={"cls": 64})
    shard = store.shard_path(path, 1)
    content = bytearray(shard.read_bytes())
    content[content.index(read_table(path).columns["cls"][4].tobytes())] ^= 1
    shard.write_bytes(content)
    store.write_manifest(path)
    read_table(path, stored=True)
    with pytest.raises(CacheError, match=r"Column 'cls' must be readable, but.*part-00001.*CRC"):
        read_table(path, verify=True, stored=True)


def test_verifying_names_the_row_that_is_not_finite(make_cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_check_vectors", lambda *_: None)
    monkeypatch.setattr("frostbench.embedcache.storage.files.ROWS_PER_GROUP", 2)
    path = make_cache(dims={"cls": 2})
    keys = store.read_keys(path, 1)
    bad, digests = np.array([[1, 2], [3, 4], [5, np.nan]], np.float16), [bytes.fromhex(k) for k in keys[1]]
    store.write_shard(path, 1, keys[0], digests, {"cls": bad}, [], read_table(path).recipes, {"cls": 2})
    store.write_manifest(path)
    told = r"row 2 \(counted from 0\) of column 'cls' in .*part-00001\.parquet is not\. Delete"
    with pytest.raises(CacheError, match=told):
        read_table(path, verify=True, stored=True)


def test_shards_that_are_gone_or_of_another_width_are_told(shards, make_cache) -> None:
    paths, _ = shards
    with pytest.raises(CacheError, match=r"4 float16 numbers has 8 bytes, but .* holds fixed_size_binary\[6\]"):
        stored_column(paths, "cls", 4)
    with pytest.raises(CacheError, match=r"must contain every column, but .* lacks 'avg'"):
        stored_column(paths, "avg", 3)
    column = stored_column(paths, "cls", 3)
    paths[2].unlink()
    np.testing.assert_array_equal(column.read(0, 29).shape, (29, 3))
    with pytest.raises(CacheError, match=r"Column 'cls' must be readable, but"):
        column.read(28, 31)


def test_a_shard_that_shrank_since_is_told(shards) -> None:
    paths, x = shards
    column = stored_column(paths, "cls", 3)
    recipes = {"cls": Recipe(provider="external", model="m")}
    ids, digests = [str(i) for i in range(4)], [b"\0" * 32] * 4
    store.write_shard(paths[0].parent.parent, 0, ids, digests, {"cls": x[:4]}, [], recipes, {"cls": 3})
    np.testing.assert_array_equal(column.read(0, 4), x[:4])
    with pytest.raises(CacheError, match=r"Row group 0 of .* must have 7 rows, but .* has fewer"):
        column.read(0, 6)
