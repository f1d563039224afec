"""One flipped bit anywhere in a cache is noticed when it is read, or changes nothing of what is read."""

from pathlib import Path

import numpy as np
import pytest
from flips import flips

from frostbench.embedcache.splits.making import SplitSpec, load_or_make_split
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.table import FeatureTable, read_table

LABELS = ("ant", "bee") * 20
FILES = ["cache.json", "items.parquet", "shards/part-00000.parquet", "shards/part-00002.parquet"]


def same(one: FeatureTable, other: FeatureTable) -> bool:
    vectors = all(np.array_equal(one.columns[name], x) for name, x in other.columns.items())
    return vectors and one.content_hash == other.content_hash and one.recipes == other.recipes


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_every_flip_in_a_file_that_decides_a_number_is_refused(make_cache, name: str, stored: bool) -> None:
    path: Path = make_cache(labels=LABELS, shard_rows=16, dims={"cls": 16})

    def read() -> None:
        for column in read_table(path, stored=stored).stored.values():
            column.read(0, 40)

    for _ in flips(path / name, 60):
        with pytest.raises(CacheError):
            read()
    read()


def test_a_flip_in_the_manifest_is_refused_or_changes_nothing(make_cache) -> None:
    path: Path = make_cache(labels=LABELS, shard_rows=16, dims={"cls": 16})
    whole, refused = read_table(path), 0
    for _ in flips(path / "manifest.json", 200):
        try:
            found = read_table(path)
        except CacheError:
            refused += 1
            continue
        assert same(whole, found)
    assert refused > 100


def test_every_flip_in_a_split_is_refused_or_changes_no_role(make_cache) -> None:
    path: Path = make_cache(labels=LABELS)
    table = read_table(path)
    split = load_or_make_split(path, table, SplitSpec())
    [file] = (path / "splits").iterdir()
    refused = 0
    for _ in flips(file, 200):
        try:
            found = load_or_make_split(path, table, SplitSpec())
        except CacheError:
            refused += 1
            continue
        assert (found.hash, found.report) == (split.hash, split.report)
        np.testing.assert_array_equal(found.roles, split.roles)
    assert refused > 100


def test_a_split_of_other_settings_is_refused_under_this_name(make_cache) -> None:
    path: Path = make_cache(labels=LABELS)
    table = read_table(path)
    load_or_make_split(path, table, SplitSpec())
    [first] = (path / "splits").iterdir()
    load_or_make_split(path, table, SplitSpec(seed=1))
    [other] = set((path / "splits").iterdir()) - {first}
    first.write_bytes(other.read_bytes())
    with pytest.raises(CacheError, match="A split file must have the settings that its name identifies, but"):
        load_or_make_split(path, table, SplitSpec())
