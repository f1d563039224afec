import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from colour_images import RECIPE, Colours, files_of, list_images, make_images, run
from typer.testing import CliRunner

from frostbench.app.commands.cache import app
from frostbench.embedcache.checking.doctor import diagnose, treat
from frostbench.embedcache.extraction.embed_command import embed_command
from frostbench.embedcache.splits.making import SplitSpec, load_or_make_split
from frostbench.embedcache.storage import store
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.storage.locking import write_lock
from frostbench.embedcache.storage.sealing import seal
from frostbench.embedcache.storage.store import bad_path, read_json, shard_path, write_json
from frostbench.embedcache.table import read_table

BAD = frozenset({3, 9, 21})


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Images 0 to 22 and their cache, in shards of five."""
    make_images(tmp_path / "images", range(23), BAD)
    run(list_images(tmp_path / "images", range(23)), tmp_path / "cache")
    return tmp_path


def doctor(cache: Path, *options: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["doctor", str(cache), *options])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def flip(cache: Path) -> None:
    path = shard_path(cache, 2)
    content = bytearray(path.read_bytes())
    content[content.rindex(np.array([12, 243, 7], np.float16).tobytes())] ^= 1
    path.write_bytes(content)


def foreign(cache: Path) -> None:
    """Shard 2 with the same rows of another model."""
    other = cache.parent / "foreign"
    recipe = RECIPE.model_copy(update={"model": "others"})
    backbone = Colours(recipes={"cls": recipe, "patch_mean": recipe})
    run(list_images(cache.parent / "images", range(23)), other, backbone)
    shutil.copy(shard_path(other, 2), shard_path(cache, 2))


def repeat(cache: Path) -> None:
    rows = pq.read_table(shard_path(cache, 2), partitioning=None)
    store.write_parquet(shard_path(cache, 2), rows.take([0, 0, *range(1, rows.num_rows)]))


def committed(cache: Path) -> None:
    (cache / "update/ready").mkdir(parents=True)
    (cache / "update/ready/manifest.json").write_bytes((cache / "manifest.json").read_bytes())
    write_json(cache / "update/commit.json", ["manifest.json"])


def edited(cache: Path) -> None:
    rows = pq.read_table(cache / "items.parquet", partitioning=None)
    pq.write_table(rows.slice(1), cache / "items.parquet")


def resized(cache: Path) -> None:
    """Another size in cache.json, beside the hash of the old one."""
    told = read_json(cache / "cache.json")
    told["columns"]["cls"]["recipe"]["size"] += 1
    write_json(cache / "cache.json", told)


DELETED = "deleted part-00002 and the manifest; the embed command recreates it"
WHOLE, ANEW = "no problems found", "incomplete: it has no manifest.json"
CASES: dict[str, tuple[Callable[[Path], object], str, str | None, str]] = {
    # harm, what is found, what --repair does, what is found after it
    "flipped byte": (flip, r"part-00002 was changed", DELETED, ANEW),
    "missing shard": (lambda c: shard_path(c, 2).unlink(), "part-00002 is missing", DELETED, ANEW),
    "foreign recipe": (foreign, "part-00002 has another recipe than cache.json", DELETED, ANEW),
    "duplicate id": (repeat, "part-00002 contains an id more than once (010.png)", DELETED, ANEW),
    "another shard": (
        lambda c: shutil.copy(shard_path(c, 3), shard_path(c, 2)),
        "part-00002 contains other images than those listed for it",
        DELETED,
        ANEW,
    ),
    "no shard at all": (lambda c: shard_path(c, 2).write_bytes(b"PAR1"), "part-00002 cannot be read", DELETED, ANEW),
    "lost quarantine": (lambda c: bad_path(c, 2).unlink(), "part-00002 has no readable quarantine", DELETED, ANEW),
    "update": (
        lambda c: (c / "update/ready").mkdir(parents=True),
        "an update was begun",
        "discarded the uncommitted update",
        WHOLE,
    ),
    "committed update": (committed, "an update was committed", "finished the committed update", WHOLE),
    "stale lock": (
        lambda c: write_json(c / "lock.json", {"pid": 7, "host": "there"}),
        "process 7 on there was writing the cache and ended",
        "deleted lock.json of process 7 on there, which has ended",
        WHOLE,
    ),
    "half-written file": (
        lambda c: (c / "shards/part-00002.parquet.77.tmp").write_bytes(b"PAR"),
        "part-00002.parquet.77.tmp is half-written",
        "deleted the half-written part-00002.parquet.77.tmp",
        WHOLE,
    ),
    "orphan shard": (
        lambda c: shutil.copy(shard_path(c, 0), shard_path(c, 9)),
        "part-00009.parquet is unused: the listing has only 5 shards",
        "deleted part-00009.parquet, which has no listed items",
        WHOLE,
    ),
    "edited listing": (edited, "items.parquet was edited after", None, "items.parquet was edited after"),
    "damaged listing": (
        lambda c: (c / "items.parquet").write_bytes(b"PAR1"),
        "items.parquet is damaged",
        "deleted items.parquet, which the embed command recreates",
        "items.parquet is missing",
    ),
    "missing listing": (
        lambda c: (c / "items.parquet").unlink(),
        "Delete manifest.json (--repair does)",
        "deleted the manifest; the embed command lists the images again",
        "items.parquet is missing",
    ),
    "edited recipe": (resized, "was edited: the recipe of cls does not match its hash", None, "cache.json was edited"),
    "damaged manifest": (
        lambda c: (c / "manifest.json").write_text("{"),
        "manifest.json is damaged",
        "deleted the manifest; the embed command recreates it",
        ANEW,
    ),
    "unfinished": (lambda c: (c / "manifest.json").unlink(), ANEW, None, ANEW),
    "damaged cache.json": (lambda c: (c / "cache.json").write_text("{"), "cache.json is damaged", None, "is damaged"),
    "stranger": (
        lambda c: (c / "shards/notes.txt").write_text("x"),
        "is not a file of the cache",
        None,
        "is not a file",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_harm_is_named_and_what_is_safe_is_repaired(world: Path, name: str) -> None:
    harm, found, done, after = CASES[name]
    cache = world / "cache"
    before = files_of(cache)
    harm(cache)
    harmed = files_of(cache)
    code, told = doctor(cache)
    assert (code, told.count("FAIL")) == (1, 1), told
    assert found in told
    assert files_of(cache) == harmed
    code, told = doctor(cache, "--repair")
    assert [line for line in told.splitlines() if line.startswith("done")] == ([f"done  {done}"] if done else [])
    assert (after in told, code) == (True, int(after != WHOLE)), told
    if name not in ("edited listing", "edited recipe", "damaged cache.json", "stranger"):
        run(list_images(world / "images", range(23)), cache)
        assert files_of(cache) == before
        assert doctor(cache) == (0, "ok    no problems found\n")


def test_the_repair_is_the_command_that_made_the_cache(world: Path) -> None:
    cache = world / "cache"
    edited(cache)
    [finding] = diagnose(cache)
    assert finding.repair.startswith("Restore the old file, or run: frostbench embed SOURCE --cache")
    assert finding.repair.endswith(
        "--backbone external:colours --pool cls --pool patch_mean --size 8 --shard-rows 5 --update"
    )
    run(list_images(world / "images", range(23)), cache, update=True)
    assert diagnose(cache) == []


def test_a_command_names_source_and_options() -> None:
    column = {"recipe": RECIPE.model_dump(mode="json")}
    source = {
        "kind": "manifest",
        "manifest": "/my data/m.csv",
        "root": "/my data",
        "group_regex": "([^/]+)_",
        "time_regex": None,
    }
    cache = {"columns": {"a.cls": column, "b@8.cls": column}, "shard_rows": 4096, "source": source, "pixel_limit": 7}
    assert embed_command(Path("c"), cache) == (
        "frostbench embed '/my data/m.csv' --cache c --backbone a=external:colours --backbone b=external:colours "
        "--pool cls --size 8 --root '/my data' --group-regex '([^/]+)_' --pixel-limit 7"
    )
    hub = {"kind": "parquet", "source": "/data", "image_column": "image", "label_column": "label"}
    assert embed_command(Path("c"), cache | {"source": hub, "columns": {"cls": column}}, update=True) == (
        "frostbench embed /data --cache c --backbone external:colours --pool cls --size 8 --image-column image "
        "--label-column label --pixel-limit 7 --update"
    )


def test_several_edited_recipes_are_told_in_the_plural(world: Path) -> None:
    stored = read_json(world / "cache" / "cache.json")
    for column in stored["columns"].values():
        column["recipe"]["size"] += 1
    write_json(world / "cache" / "cache.json", stored)
    (finding,) = diagnose(world / "cache")
    assert finding.what.endswith("was edited: the recipes of cls, patch_mean do not match their hashes.")


def test_several_harms_are_all_named_and_repaired(world: Path) -> None:
    cache = world / "cache"
    before = files_of(cache)
    for name in ("flipped byte", "half-written file", "orphan shard", "update", "stale lock"):
        CASES[name][0](cache)
    shard_path(cache, 0).unlink()
    assert len(diagnose(cache)) == 6
    code, told = doctor(cache, "--repair")
    assert (code, told.count("done"), told.count("FAIL")) == (1, 6, 1)
    run(list_images(world / "images", range(23)), cache)
    assert files_of(cache) == before


def test_orphan_splits_are_noted_and_damaged_ones_are_failures(world: Path) -> None:
    cache = world / "cache"
    load_or_make_split(cache, read_table(cache), SplitSpec())
    assert doctor(cache)[0] == 0
    run(list_images(world / "images", range(2, 23)), cache, update=True)
    code, told = doctor(cache)
    assert code == 0
    assert told.startswith("note  ")
    assert "is unused: a split of 20 rows, of which 2 are no longer listed" in told
    [split] = (cache / "splits").iterdir()
    split.write_bytes(b"PAR1")
    code, told = doctor(cache)
    assert code == 1
    assert "Delete it. The next run makes a new split" in told


def test_strange_files_beside_a_cache_are_noted_and_left(world: Path) -> None:
    cache = world / "cache"
    (cache / "notes.txt").write_text("mine")
    (cache / "results").mkdir()
    code, told = doctor(cache, "--repair")
    assert code == 0
    assert [line.partition("  ")[0] for line in told.split("\n") if "not a file of the cache" in line] == [
        "note",
        "note",
    ]
    assert f"{cache / 'notes.txt'} is not a file of the cache" in told
    assert (cache / "notes.txt").read_text() == "mine"


def test_a_cache_that_is_written_now_is_left_alone(world: Path) -> None:
    with write_lock(world / "cache"):
        code, told = doctor(world / "cache")
        assert code == 1
        assert f"process {os.getpid()} on" in told
        with pytest.raises(CacheError, match="one process at a time may write a cache"):
            treat(world / "cache")


def test_what_is_no_cache_is_an_error(tmp_path: Path) -> None:
    for ask in (diagnose, treat):
        with pytest.raises(CacheError, match=r"A cache contains cache\.json, but"):
            ask(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_imported_vectors_cannot_be_made_anew(world: Path, make_cache) -> None:
    cache = make_cache()
    write_json(cache / "cache.json", read_json(cache / "cache.json") | {"source": {"kind": "external"}})
    seal(cache)
    shard_path(cache, 1).write_bytes(b"PAR1")
    [finding] = diagnose(cache)
    assert "Import the vectors again" in finding.repair
    assert treat(cache) == []
    assert shard_path(cache, 1).exists()


def test_a_wrong_content_hash_is_found_by_the_checks_of_verify(world: Path) -> None:
    cache = world / "cache"
    manifest = json.loads((cache / "manifest.json").read_text())
    write_json(cache / "manifest.json", manifest | {"content_hash": "f00d"})
    [finding] = diagnose(cache)
    assert "content hash f00d… of its manifest" in finding.what
    assert "restore the original files" in finding.repair
