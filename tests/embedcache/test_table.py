import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frostbench.embedcache.hashes import file_sha256
from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.storage import digests, store
from frostbench.embedcache.storage.sealing import seal
from frostbench.embedcache.storage.store import CacheError
from frostbench.embedcache.storage.vectors import read_vectors
from frostbench.embedcache.table import read_table

LABELS = ("ant", "bee", "ant", "cow", "bee", "ant", "cow")
CONTENT = [hashlib.sha256(f"img/{i:04d}.png".encode()).digest() for i in range(7)]


@pytest.mark.parametrize("shard_rows", [3, 100])
@pytest.mark.parametrize("verify", [False, True])
def test_rows_come_back_aligned_with_failed_ones_left_out(make_cache, shard_rows: int, verify: bool) -> None:
    table = read_table(make_cache(bad=(1, 3), shard_rows=shard_rows), verify=verify)
    rows = [0, 2, 4, 5, 6]
    assert table.ids.tolist() == [f"img/{r:04d}.png" for r in rows]
    assert [table.class_names[i] for i in table.labels] == [LABELS[r] for r in rows]
    assert table.content.tolist() == [CONTENT[r].hex() for r in rows]
    expected = np.array([[r, r + 1 / 16, r + 2 / 16, r + 3 / 16] for r in rows], np.float16)
    np.testing.assert_array_equal(table.columns["cls"], expected)
    np.testing.assert_array_equal(table.columns["patch_mean"], expected[:, :2])
    assert table.labels.dtype == np.int64
    assert table.columns["cls"].dtype == np.float16
    assert not table.columns["cls"].flags.writeable
    assert set(table.recipes) == {"cls", "patch_mean"}


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(failed=st.lists(st.booleans(), min_size=1, max_size=12), shard_rows=st.integers(1, 13))
def test_ids_labels_and_vectors_stay_together_whatever_fails(make_cache, failed: list[bool], shard_rows: int) -> None:
    labels = [f"class {r % 3}" for r in range(len(failed))]
    bad = [r for r, fails in enumerate(failed) if fails]
    table = read_table(make_cache(labels=labels, bad=bad, shard_rows=shard_rows))
    rows = [r for r, fails in enumerate(failed) if not fails]
    assert table.ids.tolist() == [f"img/{r:04d}.png" for r in rows]
    assert table.columns["cls"][:, 0].tolist() == rows
    assert [table.class_names[i] for i in table.labels] == [labels[r] for r in rows]


def test_a_row_without_a_group_is_grouped_with_its_copies(make_cache) -> None:
    content = [*CONTENT[:6], CONTENT[0]]
    table = read_table(make_cache(content=content))
    assert not table.has_groups
    assert table.groups.tolist() == [c.hex() for c in content]
    assert table.split is None
    mixed = read_table(make_cache(groups=["g", None, "g", None, None, None, "h"], splits=[None] * 6 + ["test"]))
    assert mixed.has_groups
    assert mixed.groups.tolist()[:3] == ["g", CONTENT[1].hex(), "g"]
    assert mixed.split is not None
    assert mixed.split.tolist() == [""] * 6 + ["test"]


def test_classes_without_rows_keep_their_place(make_cache) -> None:
    table = read_table(make_cache(class_names=["aardvark", "ant", "bee", "cow"], bad=(1, 4)))
    assert table.class_names == ("aardvark", "ant", "bee", "cow")
    assert table.labels.tolist() == [1, 1, 3, 1, 3]


def test_columns_can_be_chosen_and_unknown_ones_are_named(make_cache) -> None:
    path = make_cache()
    assert set(read_table(path, ["patch_mean"]).columns) == {"patch_mean"}
    for wrong in (["avg"], []):
        with pytest.raises(CacheError, match=r"among those of the cache, \['cls', 'patch_mean'\], got"):
            read_table(path, wrong)


def test_content_hash_changes_with_all_that_makes_a_table(make_cache) -> None:
    changes = [
        {},
        {"labels": (*LABELS, "ant")},
        {"content": [b"\1" * 32, *CONTENT[1:]]},
        {"labels": ("bee", *LABELS[1:])},
        {"groups": ["g", *[None] * 6]},
        {"models": {"cls": "other"}},
        {"class_names": ["ant", "bee", "cow", "dog"]},
        {"bad": (2,)},
    ]
    hashes = [read_table(make_cache(**change)).content_hash for change in changes]
    assert len(set(hashes)) == len(changes)


def test_content_hash_does_not_depend_on_the_order_of_columns_or_on_shards(make_cache) -> None:
    path = make_cache()
    expected = store.read_json(path / "manifest.json")["content_hash"]
    assert read_table(path, ["cls", "patch_mean"]).content_hash == expected
    assert read_table(path, ["patch_mean", "cls"]).content_hash == expected
    assert read_table(make_cache(shard_rows=2)).content_hash == expected
    assert read_table(path, ["cls"]).content_hash != expected
    assert read_table(path, ["cls"]).rows_hash == read_table(path).rows_hash


def test_an_unfinished_cache_says_how_to_go_on(make_cache, tmp_path: Path) -> None:
    with pytest.raises(CacheError, match=r"contains manifest.json, but.*embed command again; it resumes"):
        read_table(make_cache(finish=False))
    with pytest.raises(CacheError, match=r"contains cache.json, but"):
        read_table(tmp_path)


def test_another_format_version_is_refused(make_cache) -> None:
    path = make_cache()
    store.write_json(path / "cache.json", store.read_json(path / "cache.json") | {"format_version": 3})
    with pytest.raises(CacheError, match=r"reads the cache formats \(1, 2\), but.*has format 3"):
        read_table(path)


def test_a_changed_listing_is_refused(make_cache) -> None:
    path, other = make_cache(), make_cache(labels=("bee", *LABELS[1:]))
    (path / "items.parquet").write_bytes((other / "items.parquet").read_bytes())
    with pytest.raises(CacheError, match="must be the listing that was embedded"):
        read_table(path)


def edit_shard(path: Path, i: int, source: Path, j: int) -> None:
    store.shard_path(path, i).write_bytes(store.shard_path(source, j).read_bytes())


def test_repeated_ids_are_refused_not_dropped(make_cache) -> None:
    path = make_cache()
    edit_shard(path, 1, path, 0)
    with pytest.raises(
        CacheError, match=r"Ids of rows must be unique, but 'img/0000.png' occurs twice\. Shards were .* doctor"
    ):
        read_table(path)


def test_rows_that_are_not_listed_or_missing_are_refused(make_cache) -> None:
    longer = make_cache(labels=LABELS * 2)
    path = make_cache()
    edit_shard(path, 1, longer, 3)
    with pytest.raises(CacheError, match=r"must be listed in items.parquet, but 'img/0009.png'"):
        read_table(path)
    path = make_cache()
    edit_shard(path, 2, longer, 3)
    with pytest.raises(CacheError, match=r"must hold 1 row as stated in the manifest, but .* holds 3"):
        read_table(path)
    store.shard_path(path, 2).unlink()
    with pytest.raises(CacheError, match=r"lists part-00002, but its file .* is missing"):
        read_table(path)


def test_labels_and_recipes_must_match_cache_json(make_cache) -> None:
    path = make_cache()
    cache = store.read_json(path / "cache.json")
    write_and_seal(path, cache | {"class_names": ["ant", "bee"]})
    with pytest.raises(CacheError, match=r"one of the 2 classes of cache.json, but \['cow'\]"):
        read_table(path)
    write_and_seal(path, cache | {"class_names": ["ant", "bee", "cow", "dog"]})
    with pytest.raises(CacheError, match=r"must have the content hash .* of its manifest, but"):
        read_table(path)
    cache["columns"]["cls"]["recipe"]["model"] = "forged"
    write_and_seal(path, cache)
    with pytest.raises(CacheError, match="recipe of column 'cls' must have the hash"):
        read_table(path)


def write_and_seal(path: Path, cache: dict[str, Any]) -> None:
    store.write_json(path / "cache.json", cache)
    seal(path)


@pytest.mark.parametrize("stored", [False, True])
def test_an_edited_cache_json_is_refused(make_cache, stored: bool) -> None:
    path = make_cache()
    store.write_json(path / "cache.json", store.read_json(path / "cache.json") | {"pixel_limit": 5})
    with pytest.raises(CacheError, match=r"must be unchanged since it was written, but.*Restore the old file"):
        read_table(path, stored=stored)


def test_a_manifest_of_an_earlier_version_is_read(make_cache) -> None:
    path = make_cache()
    manifest = store.read_json(path / "manifest.json")
    assert set(manifest) >= {"cache_sha256"}
    del manifest["cache_sha256"]
    store.write_json(path / "manifest.json", manifest)
    assert len(read_table(path).ids) == 7


@pytest.mark.parametrize("stored", [False, True])
def test_shards_and_manifest_of_a_sibling_are_refused(make_cache, stored: bool) -> None:
    """The sibling has the same images at another size, so only its recipe differs."""
    path, other = make_cache(), make_cache(models={"cls": "other", "patch_mean": "other"})
    for i in range(3):
        edit_shard(path, i, other, i)
    shutil.copy(other / "manifest.json", path)
    for message in (
        "cache.json must be unchanged since it was written",
        "part-00000 must have the recipes of cache.json, but",
    ):
        with pytest.raises(CacheError, match=message):
            read_table(path, stored=stored)
        # Manifests of earlier versions have no digest of cache.json.
        manifest = store.read_json(path / "manifest.json")
        store.write_json(path / "manifest.json", {k: v for k, v in manifest.items() if k != "cache_sha256"})


def flip_vector_byte(path: Path, vector: np.ndarray) -> None:
    content = bytearray(path.read_bytes())
    content[content.index(vector.tobytes())] ^= 1
    path.write_bytes(content)


def test_a_flipped_bit_is_found(make_cache) -> None:
    path = make_cache(dims={"cls": 64})
    flip_vector_byte(store.shard_path(path, 0), read_table(path).columns["cls"][1])
    with pytest.raises(CacheError, match=r"part-00000 must have the SHA-256 .* changed since it was written"):
        read_table(path)
    there = read_table(path, stored=True).stored["cls"]
    with pytest.raises(CacheError, match=r"part-00000 must have the SHA-256 .* changed since it was written"):
        there.read(0, 1)
    with pytest.raises(CacheError, match="part-00000 must have the SHA-256"):
        there.check()
    assert there.read(6, 7).shape == (1, 64)


def test_a_file_that_changed_is_read_again_and_one_that_did_not_is_not(tmp_path: Path, monkeypatch) -> None:
    path, read = tmp_path / "file", []
    path.write_bytes(b"one")
    monkeypatch.setattr(digests, "file_sha256", lambda p: read.append(p) or file_sha256(p))
    first = digests.sha256_now(path)
    assert digests.sha256_now(path) == first
    # The file was just written, so its next change might have the same times.
    assert len(read) == 2
    monkeypatch.setattr(digests, "SETTLED_NS", 0)
    assert [digests.sha256_now(path) for _ in range(3)] == [first] * 3
    assert len(read) == 3
    os.utime(path, ns=(5, 5))
    assert digests.sha256_now(path) == first
    assert len(read) == 4
    path.write_bytes(b"two")
    assert digests.sha256_now(path) == hashlib.sha256(b"two").hexdigest()


def test_verifying_finds_vectors_that_are_not_finite(make_cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_check_vectors", lambda *_: None)
    path = make_cache(dims={"cls": 2})
    recipes, dims = read_table(path).recipes, {"cls": 2}
    keys = store.read_keys(path, 1)
    bad = np.array([[1, 2], [3, 4], [5, np.nan]], np.float16)
    store.write_shard(path, 1, keys[0], [bytes.fromhex(k) for k in keys[1]], {"cls": bad}, [], recipes, dims)
    store.write_manifest(path)
    assert np.isnan(read_table(path).columns["cls"][5, 1])
    told = r"row 2 \(counted from 0\) of column 'cls' in .*part-00001\.parquet is not\. Delete"
    with pytest.raises(CacheError, match=told):
        read_table(path, verify=True)


def test_one_shard_is_viewed_and_many_row_groups_are_put_in_order(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("frostbench.embedcache.storage.files.ROWS_PER_GROUP", 7)
    monkeypatch.setattr("frostbench.embedcache.storage.vectors.BATCH_BYTES", 12)
    recipe = {"cls": Recipe(provider="external", model="m")}
    x = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float16)
    for i, part in enumerate((x[:29], x[29:])):
        ids = [f"{i}-{k}" for k in range(len(part))]
        store.write_shard(tmp_path, i, ids, [b"\0" * 32] * len(part), {"cls": part}, [], recipe, {"cls": 3})
    paths = [store.shard_path(tmp_path, i) for i in range(2)]
    assert pq.read_metadata(paths[0]).num_row_groups == 5
    np.testing.assert_array_equal(read_vectors(paths, "cls", 3), x)
    one = read_vectors(paths[:1], "cls", 3)
    np.testing.assert_array_equal(one, x[:29])
    assert one.base is not None
    with pytest.raises(CacheError, match=r"4 float16 numbers has 8 bytes, but .* holds fixed_size_binary\[6\]"):
        read_vectors(paths, "cls", 4)


@pytest.mark.parametrize("shard_rows", [3, 100])
def test_verifying_finds_pages_that_were_damaged_before_the_manifest(make_cache, shard_rows: int) -> None:
    path = make_cache(dims={"cls": 64}, shard_rows=shard_rows)
    shard = store.shard_path(path, 0)
    content = bytearray(shard.read_bytes())
    start = content.index(read_table(path).columns["cls"][1].tobytes())
    content[start : start + 128] = bytes(128)
    shard.write_bytes(content)
    store.write_manifest(path)
    assert not read_table(path).columns["cls"][1].any()
    with pytest.raises(CacheError, match=r"must be readable, but.*CRC"):
        read_table(path, verify=True)


def test_a_shard_that_was_written_anew_with_other_vectors_is_refused(make_cache) -> None:
    path, other = make_cache(), make_cache()
    x = np.ones((3, 4), np.float16)
    recipes, dims = read_table(path).recipes, {"cls": 4, "patch_mean": 2}
    ids, digests_ = store.read_keys(other, 1)
    vectors = {"cls": x, "patch_mean": x[:, :2]}
    store.write_shard(other, 1, ids, [bytes.fromhex(k) for k in digests_], vectors, [], recipes, dims)
    edit_shard(path, 1, other, 1)
    read_table(path, stored=True)
    with pytest.raises(CacheError, match=r"part-00001 must have the SHA-256 .* but .*part-00001.parquet has"):
        read_table(path)


def test_a_table_without_rows_reads(make_cache) -> None:
    table = read_table(make_cache(bad=range(7)))
    assert table.columns["cls"].shape == (0, 4)
    table = read_table(make_cache(bad=range(7), shard_rows=10))
    assert table.columns["cls"].shape == (0, 4)


def test_times_stay_with_their_rows(make_cache) -> None:
    times = ["2024-01-01", None, "2024-01-03", "2024-01-04", None, "2024-01-06", "2024-01-07"]
    assert read_table(make_cache(times=times, bad=(2,))).times.tolist() == [t or "" for t in times if t != times[2]]
    assert read_table(make_cache()).times is None
