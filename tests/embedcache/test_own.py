"""Files of others in the folder of a cache, or behind a link in it, are never deleted, moved or overwritten."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from colour_images import Colours, list_images, make_images, run
from typer.testing import CliRunner

from frostbench.app.commands.cache import app
from frostbench.embedcache.checking.doctor import diagnose, treat
from frostbench.embedcache.index.maps import load_or_make_map
from frostbench.embedcache.splits.making import SplitSpec, load_or_make_split
from frostbench.embedcache.storage.files import CacheError, write_json
from frostbench.embedcache.storage.locking import is_locked, part_lock, write_lock
from frostbench.embedcache.storage.mark import remove_partial
from frostbench.embedcache.storage.own import check_own, partial_files
from frostbench.embedcache.storage.state import read_manifest
from frostbench.embedcache.storage.store import finished_shards, read_json
from frostbench.embedcache.table import read_table
from frostbench.embedcache.views.embedding import make_views
from frostbench.embedcache.views.single import Flip


def everything(root: Path) -> dict[str, object]:
    """All that lies below a folder: contents of files, targets of links, and folders."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = Path(folder) / name
            kind = str(path.readlink()) if path.is_symlink() else path.is_dir() or path.read_bytes()
            found[path.relative_to(root).as_posix()] = kind
    return found


def put(path: Path, content: str = "mine") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def parts_folder(project: Path) -> None:
    put(project / "parts/a.step")


def update_folder(project: Path) -> None:
    put(project / "update/n.txt")


def with_no_cache_json(project: Path) -> None:
    parts_folder(project)
    update_folder(project)
    put(project / "cache.json", "{}")


def parts_of_alike_names(project: Path) -> None:
    put(project / "parts/1-of-3.json", '{"length": 3}')


def lock_with_content(project: Path) -> None:
    put(project / "lock")


def lock_json_with_content(project: Path) -> None:
    put(project / "lock.json", '{"door": 1}')


def shards_of_another_program(project: Path) -> None:
    put(project / "shards/part-final.parquet")


def alike_temporary_files(project: Path) -> None:
    put(project / "cache.json.backup.tmp")
    put(project / "splits/old.tmp")


FOREIGN: list[Callable[[Path], None]] = [
    parts_folder,
    update_folder,
    with_no_cache_json,
    parts_of_alike_names,
    lock_with_content,
    lock_json_with_content,
    shards_of_another_program,
    alike_temporary_files,
]


@pytest.mark.parametrize("harm", FOREIGN)
@pytest.mark.parametrize("part", [None, (0, 2)])
def test_a_folder_of_others_is_refused_before_anything_is_touched(
    tmp_path: Path, harm: Callable[[Path], None], part: tuple[int, int] | None
) -> None:
    make_images(tmp_path / "images", range(3))
    project = tmp_path / "proj"
    harm(project)
    before = everything(project)
    with pytest.raises(CacheError, match=r"must be empty or hold|no foreign file|cache\.json must be"):
        run(list_images(tmp_path / "images", range(3)), project, part=part)
    assert everything(project) == before


IN_THE_WAY = [parts_folder, update_folder, parts_of_alike_names, lock_with_content, lock_json_with_content]


@pytest.mark.parametrize("harm", IN_THE_WAY)
def test_files_of_others_in_a_whole_cache_stop_embed_and_doctor(world: Path, harm: Callable[[Path], None]) -> None:
    cache = world / "cache"
    (cache / "lock").unlink()
    harm(cache)
    put(cache / "shards/part-00000.parquet.7.tmp", "half")
    before = everything(cache)
    with pytest.raises(CacheError, match="no foreign file can be lost"):
        run(list_images(world / "images", range(3)), cache, update=True)
    with pytest.raises(CacheError, match="no foreign file can be lost"), part_lock(cache, "0-of-2"):
        pass
    with pytest.raises(CacheError, match="no foreign file can be lost"):
        treat(cache)
    assert not is_locked(cache)
    told = [finding for finding in diagnose(cache) if "was not written by Frostbench and blocks" in finding.what]
    assert len(told) == 1
    assert (told[0].mend, told[0].harmless) == (None, False)
    assert everything(cache) == before


@pytest.mark.parametrize("name", ["parts", "update", "shards", "splits", "maps", "views"])
def test_a_folder_of_a_cache_that_is_a_link_is_refused(world: Path, name: str) -> None:
    cache, documents = world / "cache", world / "documents"
    put(documents / "letter.txt")
    put(documents / "part-00000.parquet.7.tmp")
    put(documents / "0123456789abcdef.parquet.7.tmp")
    put(documents / "0-of-2.lock", "")
    shutil.rmtree(cache / name, ignore_errors=True)
    (cache / name).symlink_to("../documents")
    before = everything(world)
    table = None if name == "shards" else read_table(cache)
    with pytest.raises(CacheError, match=rf"must not be links, but .*{name} is a link to \.\./documents"):
        run(list_images(world / "images", range(23)), cache)
    with pytest.raises(CacheError, match="must not be links"):
        treat(cache)
    result = CliRunner().invoke(app, ["doctor", str(cache)])
    assert f"{cache / name} is a link" in result.output
    if table is not None:
        for write in (
            lambda: load_or_make_split(cache, table, SplitSpec()),
            lambda: load_or_make_map(cache, table),
            lambda: list(make_views(cache, "flips", Colours(), Flip(), load_or_make_split(world, table, SplitSpec()))),
        ):
            with pytest.raises(CacheError, match="must not be links"):
                write()
    shutil.rmtree(world / "splits", ignore_errors=True)
    remove_partial(cache)
    assert everything(world) == before


def test_a_view_set_that_is_a_link_is_refused(world: Path) -> None:
    cache = world / "cache"
    put(world / "documents/views.parquet")
    (cache / "views").mkdir()
    (cache / "views/flips").symlink_to("../../documents")
    table = read_table(cache)
    with pytest.raises(CacheError, match="a view set must be a real folder"):
        list(make_views(cache, "flips", Colours(), Flip(), load_or_make_split(cache, table, SplitSpec())))
    assert everything(world / "documents") == {"views.parquet": b"mine"}


def test_a_repair_does_not_write_behind_a_view_set_that_is_a_link(world: Path) -> None:
    cache, other = world / "cache", world / "other"
    shutil.copytree(cache, other)
    manifest = {k: v for k, v in read_json(other / "manifest.json").items() if not k.endswith("cache_sha256")}
    write_json(other / "manifest.json", manifest)
    (other / "views.parquet").touch()
    (cache / "views").mkdir()
    (cache / "views/flips").symlink_to("../../other")
    before = everything(other)
    treat(cache)
    assert everything(other) == before
    (cache / "views/flips").unlink()
    shutil.move(other, cache / "views/flips")
    assert any("added the SHA-256" in done for done in treat(cache))


def test_a_folder_inside_an_update_that_is_a_link_is_not_followed(world: Path) -> None:
    cache = world / "cache"
    put(world / "documents/shards/part-00000.parquet")
    (cache / "update").mkdir()
    (cache / "update/ready").symlink_to("../../documents")
    before = everything(world)
    with pytest.raises(CacheError, match="update/ready was not written by Frostbench"):
        treat(cache)
    assert everything(world) == before


@pytest.mark.parametrize(
    "names",
    [
        ["../../.bashrc"],
        ["cache.json", "shards/../../../.bashrc"],
        ["/etc/passwd"],
        ["splits/0123456789abcdef.parquet"],
        ["shards/part-1.parquet"],
        ["lock"],
        [7],
        {"cache.json": 1},
        "cache.json",
    ],
)
def test_an_update_names_files_of_the_cache_and_no_others(world: Path, names: object) -> None:
    cache = world / "cache"
    put(world.parent / ".bashrc", "alias")
    put(cache / "update/ready/cache.json", (cache / "cache.json").read_text())
    write_json(cache / "update/commit.json", names)
    before = everything(world)
    for ask in (lambda: treat(cache), lambda: run(list_images(world / "images", range(23)), cache)):
        with pytest.raises(
            CacheError, match=r"moves only files of a cache into place|must be a JSON list of file names"
        ):
            ask()
        assert {**everything(world), "cache/lock": b""} == before
    assert any("update/commit.json" in finding.what for finding in diagnose(cache))
    assert (world.parent / ".bashrc").read_text() == "alias"


def test_a_manifest_names_its_shards_and_no_other_files(world: Path) -> None:
    path = world / "cache/manifest.json"
    manifest = read_json(path)
    manifest["shards"][1]["name"] = "../../secret"
    write_json(path, manifest)
    with pytest.raises(CacheError, match=r"'\.\./\.\./secret' is not the name of a shard"):
        read_manifest(path)


def test_what_is_alike_in_name_is_no_leftover_and_no_shard(world: Path) -> None:
    cache = world / "cache"
    for name in ("cache.json.backup.tmp", "shards/part-1.parquet.7.tmp", "splits/old.tmp", "parts.tmp"):
        put(cache / name)
    put(cache / "shards/part-final.parquet")
    assert partial_files(cache) == []
    assert finished_shards(cache) == set(range(5))
    told = [finding for finding in diagnose(cache) if "part-final" in finding.what]
    assert [finding.mend for finding in told] == [None]


def test_each_name_that_is_written_here_is_a_leftover_with_its_ending(world: Path) -> None:
    cache = world / "cache"
    load_or_make_split(cache, read_table(cache), SplitSpec())
    load_or_make_map(cache, read_table(cache))
    (cache / "parts").mkdir()
    names = [path.relative_to(cache).as_posix() for path in cache.rglob("*") if path.is_file() and path.name != "lock"]
    names += ["views.parquet", "lock.json", "parts/0-of-2.json", "update/commit.json", "update/scratch/todo.parquet"]
    names += ["update/ready/shards/part-00000.parquet", "update/scratch/shards/part-100000.bad.json"]
    for name in names:
        put(cache / f"{name}.7.tmp", "half")
    assert [path.relative_to(cache).as_posix() for path in partial_files(cache)] == sorted(f"{n}.7.tmp" for n in names)
    check_own(cache)
    with write_lock(cache):
        assert not (cache / "parts").exists()


def deleted(before: dict[str, object], after: dict[str, object]) -> Iterator[str]:
    return (name for name in before if name not in after)


def test_a_repair_deletes_leftovers_beside_what_is_not_ours(world: Path) -> None:
    cache = world / "cache"
    put(cache / "mine.7.tmp")
    put(cache / "items.parquet.7-0123abcd.tmp", "half")
    put(cache / "update/ready/items.parquet", "half")
    before = everything(cache)
    treat(cache)
    gone = sorted(deleted(before, everything(cache)))
    assert gone == ["items.parquet.7-0123abcd.tmp", "update", "update/ready", "update/ready/items.parquet"]
