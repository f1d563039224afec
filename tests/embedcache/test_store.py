import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.sources.source import Item
from frostbench.embedcache.storage import store
from frostbench.embedcache.storage.listing import read_item_columns
from frostbench.embedcache.storage.mark import remove_partial
from frostbench.embedcache.storage.store import CacheError

RECIPE = Recipe(provider="external", model="m")


def write(tmp_path: Path, x: np.ndarray, ids: list[str] | None = None, storage: str = "float16", dim: int = 2) -> None:
    recipe = RECIPE.model_copy(update={"storage": storage})
    ids = ids or [f"i{k}" for k in range(len(x))]
    store.write_shard(tmp_path, 0, ids, [b"\0" * 32] * len(ids), {"cls": x}, [], {"cls": recipe}, {"cls": dim})


def test_json_is_sorted_atomic_and_round_trips(tmp_path: Path) -> None:
    store.write_json(tmp_path / "a" / "x.json", {"b": 1, "a": ["é", None]})
    assert (tmp_path / "a" / "x.json").read_text() == '{\n "a": [\n  "\\u00e9",\n  null\n ],\n "b": 1\n}\n'
    assert store.read_json(tmp_path / "a" / "x.json") == {"a": ["é", None], "b": 1}
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["x.json"]


def test_json_refuses_what_json_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.write_json(tmp_path / "x.json", float("nan"))
    (tmp_path / "y.json").write_text("{")
    with pytest.raises(CacheError, match=r"must be valid JSON, but.*Restore it"):
        store.read_json(tmp_path / "y.json")


def test_items_round_trip_in_order_with_odd_names(tmp_path: Path) -> None:
    items = (
        Item("b/ü.png", Path("/x/b/\udcff.png"), "b", None, None),
        Item("a/1.png", Path("/x/a/1.png"), "a", "g1", "train"),
        Item("no-file", None, "ß", "g2", "test"),
        Item("z", Path("/x/z.parquet"), "b", time="2024-01-31T10:20:30", member=7, column="image"),
    )
    store.write_items(tmp_path, items)
    assert store.read_items(tmp_path) == items


def test_items_of_format_1_have_no_times_or_members(tmp_path: Path) -> None:
    item = Item("a/1.png", Path("/x/a/1.png"), "a", "g1", "train")
    store.write_items(tmp_path, [item])
    path = tmp_path / "items.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["time", "member", "column"]), path)
    assert store.read_items(tmp_path) == (item,)
    columns = {"id": ["a/1.png"], "label": ["a"], "group": ["g1"], "split": ["train"], "time": [None]}
    assert read_item_columns(tmp_path) == columns


def test_items_refuse_repeated_and_undecodable_ids(tmp_path: Path) -> None:
    with pytest.raises(CacheError, match=r"Ids of items must be unique, but 'a' occurs twice"):
        store.write_items(tmp_path, [Item("a", None, "x", None, None)] * 2)
    with pytest.raises(CacheError, match=r"must be valid UTF-8, got 'a\\udcff'"):
        store.write_items(tmp_path, [Item("a\udcff", None, "x", None, None)])


def test_shard_layout_is_plain_non_null_and_checksummed(tmp_path: Path) -> None:
    x = np.array([[1.5, -2], [0.25, 4]], np.float16)
    write(tmp_path, x)
    path = tmp_path / "shards" / "part-00000.parquet"
    schema = pq.read_schema(path)
    assert schema.names == ["id", "sha256", "cls"]
    assert schema.field("cls").type == pa.binary(4)
    assert not schema.field("cls").nullable
    assert schema.field("cls").metadata[b"dtype"] == b"float16"
    assert schema.field("cls").metadata[b"dim"] == b"2"
    about = json.loads(schema.metadata[b"embedcache"])
    assert about["columns"]["cls"] == {
        "recipe": RECIPE.model_dump(mode="json"),
        "recipe_hash": RECIPE.hash,
        "dim": 2,
    }
    assert (about["n"], about["format_version"], about["dtype"]) == (2, 2, "float16")
    column = pq.read_metadata(path).row_group(0).column(2)
    assert column.compression == "UNCOMPRESSED"
    assert set(column.encodings) <= {"PLAIN", "RLE"}
    assert not column.has_dictionary_page
    assert not column.is_stats_set
    assert b"".join(pq.read_table(path)["cls"].to_pylist()) == x.tobytes()


def test_the_decoder_in_the_metadata_decodes(tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float16).reshape(3, 2)
    write(tmp_path, x)
    table = pq.read_table(store.shard_path(tmp_path, 0))
    code = json.loads(table.schema.metadata[b"embedcache"])["decoder"]
    decoded = eval(code, {"numpy": np, "values": table["cls"].to_pylist(), "dim": 2})
    np.testing.assert_array_equal(decoded, x)


def test_row_groups_hold_at_most_32768_rows(tmp_path: Path) -> None:
    write(tmp_path, np.zeros((40_000, 2), np.float16))
    metadata = pq.read_metadata(store.shard_path(tmp_path, 0))
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [32_768, 7_232]


def test_equal_shards_are_equal_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / name, np.ones((3, 2), np.float16))
    a, b = (store.shard_path(tmp_path / name, 0).read_bytes() for name in ("a", "b"))
    assert a == b


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_vector_that_is_not_finite_is_refused_by_name(tmp_path: Path, value: float) -> None:
    x = np.zeros((3, 2), np.float16)
    x[1, 1] = value
    names = ["cat/1.png", "cat/2.png", "cat/3.png"]
    told = r"must be finite, but column 'cls' of 'cat/2.png' is not\. Check the weights of the backbone"
    with pytest.raises(CacheError, match=rf"{told}, and choose another pooling for numbers beyond 65504"):
        write(tmp_path, x, names)
    with pytest.raises(CacheError, match=rf"{told}\.$"):
        write(tmp_path, x.astype(np.float32), names, "float32")
    assert not (tmp_path / "shards").exists()


@pytest.mark.parametrize(("x", "dim"), [(np.zeros((2, 2), np.float32), 2), (np.zeros((2, 3), np.float16), 2)])
def test_another_dtype_or_shape_is_refused(tmp_path: Path, x: np.ndarray, dim: int) -> None:
    with pytest.raises(CacheError, match=r"must be float16 \[2, 2\], got"):
        write(tmp_path, x, dim=dim)


def test_a_shard_without_good_rows_is_still_written(tmp_path: Path) -> None:
    write(tmp_path, np.zeros((0, 2), np.float16), [])
    assert store.finished_shards(tmp_path) == {0}
    assert store.read_keys(tmp_path, 0) == ([], [])


def test_partial_files_are_not_finished_and_are_removed(make_cache, tmp_path: Path) -> None:
    write(tmp_path, np.zeros((1, 2), np.float16))
    (tmp_path / "shards" / "part-00001.parquet.77.tmp").write_bytes(b"half")
    (tmp_path / "items.parquet.77.tmp").write_bytes(b"half")
    assert store.finished_shards(tmp_path) == {0}
    (tmp_path / "splits").mkdir()
    (tmp_path / "splits" / "0123456789abcdef.parquet.77.tmp").write_bytes(b"half")
    (tmp_path / "splits" / "notes.txt").write_text("mine")
    (tmp_path / "mine.tmp").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    remove_partial(tmp_path)  # no cache: nothing is deleted
    assert sorted(tmp_path.rglob("*")) == before
    for no_cache in ("{}", "null", "{"):
        (tmp_path / "cache.json").write_text(no_cache)
        remove_partial(tmp_path)
        assert sorted(path for path in tmp_path.rglob("*") if path.name != "cache.json") == before
    shutil.move(make_cache() / "cache.json", tmp_path / "cache.json")
    shutil.rmtree(tmp_path / "cache0")
    remove_partial(tmp_path)
    left = ["cache.json", "mine.tmp", "notes.txt", "part-00000.bad.json", "part-00000.parquet"]
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == left


def test_manifest_counts_rows_and_quarantine(make_cache) -> None:
    path = make_cache(bad=(1, 3, 4, 5))
    manifest = store.read_json(path / "manifest.json")
    assert (manifest["n_listed"], manifest["n_ok"], manifest["n_bad"]) == (7, 3, 4)
    assert [(s["name"], s["rows"], s["bad"]) for s in manifest["shards"]] == [
        ("part-00000", 2, 1),
        ("part-00001", 0, 3),
        ("part-00002", 1, 0),
    ]
    first = (path / "shards" / "part-00000.parquet").read_bytes()
    assert manifest["shards"][0]["sha256"] == hashlib.sha256(first).hexdigest()


def test_manifest_refuses_a_missing_shard(make_cache) -> None:
    path = make_cache(finish=False)
    store.shard_path(path, 1).unlink()
    with pytest.raises(CacheError, match=r"part-00001 is missing.*Resume the embed command"):
        store.write_manifest(path)


def test_manifest_refuses_rows_that_do_not_add_up(make_cache) -> None:
    path = make_cache(bad=(1,), finish=False)
    store.write_json(store.bad_path(path, 0), [])
    with pytest.raises(CacheError, match=r"must together be its 3 listed items, got 2 rows and 0 quarantined"):
        store.write_manifest(path)


def test_manifest_refuses_rows_of_another_shard(make_cache) -> None:
    path = make_cache(finish=False)
    store.shard_path(path, 1).write_bytes(store.shard_path(path, 0).read_bytes())
    with pytest.raises(CacheError, match="of part-00001 must together be its 3 listed items"):
        store.write_manifest(path)
