import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from frostbench.embedcache.checking.verify import cache_info, verify_cache
from frostbench.embedcache.splits.making import SplitSpec, load_or_make_split
from frostbench.embedcache.storage import store
from frostbench.embedcache.storage.schemas import ColumnEntry
from frostbench.embedcache.storage.sealing import seal
from frostbench.embedcache.storage.state import read_quarantine
from frostbench.embedcache.storage.store import CacheError
from frostbench.embedcache.table import read_table

LABELS = ("ant", "bee") * 20
STATED = r", but "
"""Separator of what must hold and what was found."""


def failed(path: Path) -> list[str]:
    return [check.name for check in verify_cache(path).checks if not check.ok]


def test_a_sound_cache_passes_every_check(make_cache) -> None:
    path = make_cache(labels=LABELS, bad=(3, 4))
    load_or_make_split(path, read_table(path), SplitSpec())
    report = verify_cache(path)
    assert report.ok
    details = {check.name: check.detail for check in report.checks}
    assert len(details) == 7
    assert details["rows + quarantine = listing"] == "38 + 2 = 40"
    assert details["SHA-256 of each shard"] == "14 shards"
    assert details["splits"] == "1 split"
    assert details["view sets"] == "0 view sets"


def test_an_unfinished_cache_is_one_failed_check(make_cache) -> None:
    report = verify_cache(make_cache(finish=False))
    assert [check.ok for check in report.checks] == [False]
    assert "it resumes where it stopped" in report.checks[0].detail


def test_a_flipped_bit_fails_two_checks(make_cache) -> None:
    path = make_cache(dims={"cls": 64})
    shard = store.shard_path(path, 1)
    content = bytearray(shard.read_bytes())
    content[content.index(read_table(path).columns["cls"][4].tobytes())] ^= 1
    shard.write_bytes(content)
    assert failed(path) == ["SHA-256 of each shard", "page checksums, ids and finite vectors"]


def test_a_lost_quarantine_row_fails(make_cache) -> None:
    path = make_cache(bad=(1,))
    store.write_json(store.bad_path(path, 0), [])
    assert failed(path) == ["rows + quarantine = listing"]


def test_swapped_shards_fail(make_cache) -> None:
    path = make_cache(labels=LABELS, shard_rows=20)
    first, second = (store.shard_path(path, i) for i in range(2))
    a, b = first.read_bytes(), second.read_bytes()
    first.write_bytes(b)
    second.write_bytes(a)
    assert {"SHA-256 of each shard", "rows + quarantine = listing"} <= set(failed(path))


def test_a_changed_recipe_fails(make_cache) -> None:
    path, other = make_cache(), make_cache(models={"cls": "other"})
    (path / "cache.json").write_bytes((other / "cache.json").read_bytes())
    assert failed(path) == ["complete, known format, unchanged"]
    seal(path)
    assert failed(path) == ["recipes of the shards", "page checksums, ids and finite vectors"]


def test_a_missing_shard_and_a_changed_split_fail(make_cache) -> None:
    path = make_cache(labels=LABELS)
    load_or_make_split(path, read_table(path), SplitSpec())
    [file] = (path / "splits").iterdir()
    rows = pq.read_table(file, partitioning=None)
    pq.write_table(rows.slice(1), file)
    assert failed(path) == ["splits"]
    store.shard_path(path, 0).unlink()
    assert len(failed(path)) == 5


def with_canary(path: Path, vector: list[float]) -> Path:
    store.write_json(
        path / "cache.json", store.read_json(path / "cache.json") | {"canary": {"vectors": {"cls": vector}}}
    )
    seal(path)
    return path


CANARIES = [
    ([1.0, 0.0], True, "0.000000"),
    ([1.0, 0.01], True, "0.010000"),
    ([1.0, 0.02], False, "0.020000"),
    ([2.0, 0.0], False, "1.000000"),
    ([0.98, 0.0], False, "0.020000"),
    ([float("nan"), 0.0], False, "inf"),
]


@pytest.mark.parametrize(("now", "ok", "told"), CANARIES)
def test_the_canary_compares_values_and_not_only_direction(make_cache, now: list[float], ok: bool, told: str) -> None:
    path = with_canary(make_cache(), [1.0, 0.0])
    check = verify_cache(path, lambda: {"cls": np.array(now)}).checks[-1]
    assert (check.name, check.ok) == ("canary", ok)
    assert f"cls {told}" in check.detail


def test_a_canary_that_is_not_there_fails(make_cache) -> None:
    def forgotten() -> dict[str, Any]:
        return {}

    assert "imported vectors have none" in verify_cache(make_cache(), forgotten).checks[-1].detail
    assert not verify_cache(with_canary(make_cache(), [1.0]), forgotten).ok


def test_info_counts(make_cache) -> None:
    path = make_cache(bad=(1, 2), groups=["g", "g", None, "h", "h", "i", "i"], class_names=["ant", "bee", "cow", "dog"])
    info = cache_info(path)
    assert (info["n_listed"], info["n_ok"], info["n_bad"]) == (7, 5, 2)
    assert info["classes"] == {"ant": 2, "bee": 1, "cow": 2, "dog": 0}
    assert info["groups"] == 3
    assert info["quarantine"] == {"truncated": 2}
    assert info["columns"]["cls"] == {
        "dim": 4,
        "recipe_hash": read_table(path).recipes["cls"].hash,
        "model": "m",
    }
    assert info["bytes"] == sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
    assert cache_info(make_cache())["groups"] is None
    with pytest.raises(CacheError, match="embed command again"):
        cache_info(make_cache(finish=False))


def test_the_quarantine_is_listed_and_counted_without_its_numbers(make_cache) -> None:
    path = make_cache(bad=(1, 2, 5))
    first = store.read_bad(path, 0)
    first[0]["reason"], first[1]["reason"] = ("has 9 x 8 pixels", "has 20000 x 6000 pixels")
    store.write_json(store.bad_path(path, 0), first)
    assert [(row["id"], row["reason"]) for row in read_quarantine(path)] == [
        ("img/0001.png", "has 9 x 8 pixels"),
        ("img/0002.png", "has 20000 x 6000 pixels"),
        ("img/0005.png", "truncated"),
    ]
    assert cache_info(path)["quarantine"] == {"has … x … pixels": 2, "truncated": 1}
    assert read_quarantine(make_cache()) == []


JSON = ["{}", "[]", "null", "1", "{", '{"format_version": 1}', "[" * 100_000]
FILES = ["cache.json", "manifest.json", "shards/part-00001.bad.json", "items.parquet", "shards/part-00001.parquet"]


def damages() -> list[tuple[str, bytes | None]]:
    texts: list[tuple[str, bytes | None]] = [(name, text.encode()) for name in FILES[:3] for text in JSON]
    texts += [("shards/part-00001.bad.json", b'[{"id": "a"}]'), ("shards/part-00001.bad.json", b"[null]")]
    return texts + [(name, content) for name in FILES[1:] for content in (None, b"", b"PAR1PAR1")]


@pytest.mark.parametrize("kind", ["test", "external"])
@pytest.mark.parametrize(("name", "content"), damages())
def test_any_damage_is_told_in_three_parts(make_cache, name: str, content: bytes | None, kind: str) -> None:
    path = make_cache(bad=(1, 4))
    state = store.read_json(path / "cache.json") | {"source": {"kind": kind}}
    store.write_json(path / "cache.json", state)
    seal(path)
    assert verify_cache(path).ok
    if content is None:
        (path / name).unlink()
    else:
        (path / name).write_bytes(content)
    report = verify_cache(path)
    assert not report.ok
    for check in report.checks:
        assert check.ok or (re.search(STATED, check.detail) and str(path) in check.detail), check.detail
    asked = [cache_info, read_quarantine] if name.endswith("bad.json") else [cache_info, read_table]
    for ask in asked:
        with pytest.raises(CacheError, match=STATED) as caught:
            ask(path)
        text = str(caught.value)
        assert str(path if content is None else path / name) in text
        advice = text.rpartition(". ")[2] if content is None else text.rpartition("). ")[2]
        known = kind if name != "cache.json" else "unknown"
        assert ("embed" not in advice.lower()) == (known == "external"), text
        assert ("import the vectors" in advice.lower()) == (known != "test"), text


def test_damage_is_told_apart_from_a_changed_listing(make_cache) -> None:
    path = make_cache()
    pq.write_table(pq.read_table(path / "items.parquet").slice(1), path / "items.parquet")
    with pytest.raises(CacheError, match="was changed"):
        read_table(path)
    (path / "items.parquet").write_bytes(b"PAR1")
    with pytest.raises(CacheError, match="is damaged"):
        read_table(path)


def test_manifest_must_name_every_shard(make_cache) -> None:
    path = make_cache()
    manifest = store.read_json(path / "manifest.json")
    store.write_json(path / "manifest.json", manifest | {"shards": manifest["shards"][:2]})
    with pytest.raises(CacheError, match=r"7 items must name 3 shards, but .* names 2"):
        read_table(path)


def test_reading_about_a_cache_does_not_import_scikit_learn() -> None:
    code = "import sys, frostbench.embedcache.checking.verify; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("key", ["dim", "tokens"])
def test_a_width_that_no_cell_can_have_is_told(make_cache, key: str) -> None:
    path = make_cache()
    state = store.read_json(path / "cache.json")
    state["columns"]["cls"][key] = 10**12
    store.write_json(path / "cache.json", state)
    with pytest.raises(CacheError, match=r"a row of a column must have less than 2 GiB"):
        read_table(path)


@pytest.mark.parametrize(("storage", "most"), [("float16", 2**30 - 1), ("float32", 2**29 - 1)])
def test_the_width_of_a_cell_is_that_of_its_number_type(storage: str, most: int) -> None:
    column = {"recipe": {"storage": storage}, "recipe_hash": "0"}
    assert ColumnEntry.model_validate({**column, "dim": most}).dim == most
    assert pa.binary(np.dtype(storage).itemsize * most).byte_width > 0
    for too_wide in ({"dim": most + 1}, {"dim": 1, "tokens": most + 1}):
        with pytest.raises(ValidationError, match="must have less than 2 GiB"):
            ColumnEntry.model_validate({**column, **too_wide})


def test_a_manifest_of_too_many_items_makes_no_list_of_them(make_cache) -> None:
    path = make_cache()
    manifest = store.read_json(path / "manifest.json")
    store.write_json(path / "manifest.json", manifest | {"n_listed": 10**15})
    with pytest.raises(CacheError, match="must name 333333333333334 shards, but"):
        read_table(path)
