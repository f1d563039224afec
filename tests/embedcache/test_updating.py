import errno
import os
import shutil
import signal
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from colour_images import RECIPE, Colours, files_of, list_images, make_images, paint, run, sha_of

from embedcache.checking.verify import verify_cache
from embedcache.extraction import pipeline
from embedcache.extraction.events import Finished, ShardDone, Stopped
from embedcache.extraction.extract import extract
from embedcache.items import Listing
from embedcache.storage import store
from embedcache.storage.files import CacheError
from embedcache.storage.store import read_bad, read_json, shard_path
from embedcache.table import FeatureTable, read_table

BAD = frozenset({3, 9, 21})
"""Of the first 23 images, which are shards 0-4, 5-9, 10-14, 15-19 and 20-22."""


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Images 0 to 22 and their cache."""
    make_images(tmp_path / "images", range(23), BAD)
    run(list_images(tmp_path / "images", range(23)), tmp_path / "cache")
    return tmp_path


def change(root: Path) -> Listing:
    """Image 1 is another picture, 7, 8, 13 are gone, 23 to 28 are new (24 is bad), 10 is relabelled, 16 regrouped."""
    make_images(root, range(23, 29), frozenset({24}))
    paint(root / "001.png", 200)
    numbers = [n for n in range(29) if n not in (7, 8, 13)]
    return list_images(
        root, numbers, lambda n: "c" if n == 10 else "ab"[n % 2], lambda n: "other" if n == 16 else f"g{n // 2}"
    )


def by_id(table: FeatureTable) -> dict[str, Any]:
    """What a table says of each row, whatever their order."""
    names = [table.class_names[label] for label in table.labels]
    vectors = [tuple(x[i].tobytes() for x in table.columns.values()) for i in range(len(table.ids))]
    return dict(zip(table.ids.tolist(), zip(names, table.groups, table.content, vectors, strict=True), strict=True))


def assert_same_rows(cache: Path, fresh: Path) -> None:
    one, other = read_table(cache, verify=True), read_table(fresh, verify=True)
    assert by_id(one) == by_id(other)
    assert one.class_names == other.class_names
    bad = [
        {row["id"]: row for i in range(9) if shard_path(c, i).exists() for row in read_bad(c, i)}
        for c in (cache, fresh)
    ]
    assert bad[0] == bad[1]
    counts = [
        {name: read_json(c / "manifest.json")[name] for name in ("n_listed", "n_ok", "n_bad")} for c in (cache, fresh)
    ]
    assert counts[0] == counts[1]
    report = verify_cache(cache)
    assert report.ok, report


def test_an_update_embeds_new_and_changed_images_only(world: Path) -> None:
    cache, listing = world / "cache", change(world / "images")
    before = [sha_of(shard_path(cache, i)) for i in range(5)]
    with pytest.raises(CacheError, match=r"6 images are new .*3 are gone .*2 have another .*Give the option --update"):
        run(listing, cache)
    backbone = Colours()
    events = run(listing, cache, backbone, update=True)
    assert backbone.embedded == 1 + 5
    assert any("brought up to date: 6 images are new" in warning for warning in events[0].warnings)
    assert (events[0].n_listed, events[0].n_done, events[0].n_shards) == (26, 19, 7)
    assert [(e.shard, e.n_ok, e.n_bad) for e in events if isinstance(e, ShardDone)] == [(0, 4, 1), (5, 4, 1), (6, 1, 0)]
    assert isinstance(events[-1], Finished)
    assert (events[-1].n_ok, events[-1].n_bad, events[-1].n_worked) == (22, 4, 7)
    # Shard 0 has a changed image, shards 1 and 2 lost some; 3 and 4 are untouched, though 16 has another group.
    after = [sha_of(shard_path(cache, i)) for i in range(5)]
    assert [old == new for old, new in zip(before, after, strict=True)] == [False, False, False, True, True]
    assert read_json(cache / "cache.json")["shard_sizes"] == [5, 3, 4, 5, 3, 5, 1]
    assert read_table(cache).ids.tolist()[:6] == ["000.png", "001.png", "002.png", "004.png", "005.png", "006.png"]
    run(listing, world / "fresh")
    assert_same_rows(cache, world / "fresh")
    assert not (cache / "update").exists()
    again = Colours()
    assert run(listing, cache, again)[-1].n_worked == again.embedded == 0
    assert run(listing, cache, again, update=True)[-1].n_worked == 0


def test_rows_that_were_merged_are_written_as_if_embedded_at_once(world: Path) -> None:
    paint(world / "images/001.png", 200)
    paint(world / "images/009.png", 9)
    backbone = Colours()
    assert (
        run(list_images(world / "images", range(23)), world / "cache", backbone)[-1].n_worked == backbone.embedded == 2
    )
    run(list_images(world / "images", range(23)), world / "fresh")
    assert files_of(world / "cache") == files_of(world / "fresh")


def test_other_labels_and_groups_embed_nothing_and_read_each_image_once(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, read = world / "cache", []
    real = pipeline.read_item
    monkeypatch.setattr(pipeline, "read_item", lambda item: read.append(item.id) or real(item))
    before, old = files_of(cache), read_table(cache)
    backbone = Colours()
    listing = list_images(world / "images", range(23), lambda n: "xyz"[n % 3], lambda n: f"h{n}")
    run(listing, cache, backbone, update=True)
    assert backbone.embedded == 0
    assert sorted(read) == [f"{n:03d}.png" for n in range(23)]
    after, new = files_of(cache), read_table(cache)
    assert {name for name in before if before[name] != after[name]} == {"cache.json", "items.parquet", "manifest.json"}
    assert new.content_hash != old.content_hash
    assert new.class_names == ("x", "y", "z")
    assert "shard_sizes" not in read_json(cache / "cache.json")
    run(listing, world / "fresh")
    assert files_of(cache) == files_of(world / "fresh")


def test_moved_images_are_found_again(world: Path) -> None:
    (world / "images").rename(world / "moved")
    backbone = Colours()
    listing = list_images(world / "moved", range(23))
    run(listing, world / "cache", backbone, update=True)
    assert backbone.embedded == 0
    run(listing, world / "fresh")
    assert files_of(world / "cache") == files_of(world / "fresh")


def test_one_update_after_another(world: Path) -> None:
    cache, images = world / "cache", world / "images"
    embedded = []
    for numbers in (range(4, 20), range(25), [], range(1, 25, 2), range(25)):
        make_images(images, [23, 24])
        if not numbers:
            with pytest.raises(ValueError, match="none was found"):
                list_images(images, numbers)
            continue
        backbone = Colours()
        run(list_images(images, numbers), cache, backbone, update=True)
        embedded.append(backbone.embedded)
    # 0-3 and 20-24 came again, of which 3 and 21 are bad; then 0, 2, 4, … 24.
    assert embedded == [0, 7, 0, 13]
    run(list_images(images, range(25)), world / "fresh")
    assert_same_rows(cache, world / "fresh")


def test_a_shard_that_lost_all_its_images_stays_empty(world: Path) -> None:
    listing = list_images(world / "images", range(10, 23))
    run(listing, world / "cache", update=True)
    assert read_json(world / "cache/cache.json")["shard_sizes"] == [0, 0, 5, 5, 3]
    run(listing, world / "fresh")
    assert_same_rows(world / "cache", world / "fresh")


def test_a_cache_that_is_not_finished_is_updated_too(world: Path) -> None:
    asked = iter(range(100))
    make_images(world / "images", range(23), BAD)
    listing = list_images(world / "images", range(23))
    assert isinstance(run(listing, world / "half", stop=lambda: next(asked) == 3)[-1], Stopped)
    changed, backbone = change(world / "images"), Colours()
    run(changed, world / "half", backbone, update=True)
    run(changed, world / "fresh")
    assert_same_rows(world / "half", world / "fresh")
    # Shards 0 and 1 were there: 0, 2, 4, 5 and 6 of the 22 rows are kept.
    assert backbone.embedded == 22 - 5


def test_a_damaged_shard_is_embedded_anew_in_an_update(world: Path) -> None:
    path = shard_path(world / "cache", 2)
    content = bytearray(path.read_bytes())
    content[content.rindex(np.array([12, 243, 7], np.float16).tobytes())] ^= 1
    path.write_bytes(content)
    listing = list_images(world / "images", [n for n in range(23) if n != 13])
    backbone = Colours()
    run(listing, world / "cache", backbone, update=True)
    assert backbone.embedded == 4
    run(listing, world / "fresh")
    assert_same_rows(world / "cache", world / "fresh")


def test_a_cache_of_format_1_is_continued_and_updated(world: Path) -> None:
    cache = world / "cache"
    state = read_json(cache / "cache.json") | {"format_version": 1}
    store.write_json(cache / "cache.json", state)
    items = pq.read_table(cache / "items.parquet")
    store.write_parquet(cache / "items.parquet", items.drop_columns(["time", "member", "column"]))
    (cache / "manifest.json").unlink()
    backbone = Colours()
    run(list_images(world / "images", range(23)), cache, backbone)
    assert read_json(cache / "cache.json")["format_version"] == 1
    assert len(read_table(cache, verify=True).ids) == 20
    assert backbone.embedded == 0
    listing = change(world / "images")
    backbone = Colours()
    run(listing, cache, backbone, update=True)
    assert read_json(cache / "cache.json")["format_version"] == 2
    assert backbone.embedded == 6
    run(listing, world / "fresh")
    assert_same_rows(cache, world / "fresh")


class Dying:
    """Counts what touches the disk, and ends the process, or the disk, before the chosen one."""

    def __init__(self, at: int, full: bool) -> None:
        self.at, self.full, self.count = at, full, 0

    def step(self) -> None:
        self.count += 1
        if self.count == self.at and not self.full:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.count == self.at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        places = [(os, "fsync"), (pq, "write_table"), (Path, "replace")]
        places += [] if self.full else [(Path, "unlink"), (shutil, "rmtree")]
        for owner, name in places:
            monkeypatch.setattr(owner, name, self._before(getattr(owner, name)))

    def _before(self, real: Any) -> Any:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            self.step()
            return real(*arguments, **options)

        return wrapped


def killed(dying: Dying, listing: Listing, cache: Path) -> bool:
    """Embed in a fork that dies on the way; whether it did."""
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)
        dying.patch(pytest.MonkeyPatch())
        try:
            run(listing, cache, update=True)
        finally:
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def filled(dying: Dying, listing: Listing, cache: Path) -> bool:
    """Embed while the disk gets full on the way; whether that stopped it."""
    with pytest.MonkeyPatch.context() as patch:
        dying.patch(patch)
        try:
            run(listing, cache, update=True)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return True
    return False


def check_survives(listing: Listing, cache: Path, whole: Path, allowed: list[dict[str, Any]]) -> None:
    """What was left behind is one of the allowed tables, or says that it is unfinished; and it becomes the whole."""
    if (cache / "manifest.json").exists():
        assert by_id(read_table(cache, verify=True)) in allowed
    else:
        with pytest.raises(CacheError, match=r"Run the same embed command again|Is this the cache's own folder"):
            read_table(cache)
    run(listing, cache, update=True)
    assert files_of(cache) == files_of(whole)


def run_all_deaths(world: Path, *, full: bool, begun: bool, step: int) -> int:
    """Die at every step of a new cache, or of the update of one that was begun; the number of steps."""
    listing, whole = change(world / "images"), world / "whole"
    old = world / "cache"
    if begun:
        shutil.copytree(old, whole)
    run(listing, whole, update=True)
    allowed = [by_id(read_table(path)) for path in (old, whole)]
    at = 1
    while True:
        cache, dying = world / f"death{at}", Dying(at, full)
        if begun:
            shutil.copytree(old, cache)
        if not (filled if full else killed)(dying, listing, cache):
            return at
        check_survives(listing, cache, whole, allowed[not begun :])
        shutil.rmtree(cache)
        at += step


@pytest.mark.parametrize(("full", "begun", "step"), [(False, True, 31), (True, True, 31), (False, False, 23)])
def test_extraction_survives_a_kill_and_a_full_disk(world: Path, full: bool, begun: bool, step: int) -> None:
    assert run_all_deaths(world, full=full, begun=begun, step=step) > 40


@pytest.mark.slow
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_extraction_survives_a_kill_and_a_full_disk_at_every_point(world: Path, full: bool, begun: bool) -> None:
    assert run_all_deaths(world, full=full, begun=begun, step=1) > 40


@pytest.mark.parametrize("after", range(1, 5))
def test_a_stopped_update_goes_on_without_the_option(world: Path, after: int) -> None:
    listing = change(world / "images")
    shutil.copytree(world / "cache", world / "updated")
    run(listing, world / "updated", batch=2, update=True)
    asked, backbone = iter(range(1, 100)), Colours()
    events = run(listing, world / "cache", backbone, batch=2, update=True, stop=lambda: next(asked) == after)
    first = backbone.embedded
    assert isinstance(events[-1], Stopped)
    run(listing, world / "cache", backbone, batch=2)
    # The canary is embedded in both runs, and the batches of the shard that was not finished.
    assert first + 1 <= backbone.embedded <= 6 + 1 + 5
    assert files_of(world / "cache") == files_of(world / "updated")


@pytest.mark.parametrize("kind", [RuntimeError, BrokenExecutor])
def test_a_decoding_worker_that_dies_is_an_error_and_the_cache_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    make_images(tmp_path / "images", range(23), BAD)
    listing = list_images(tmp_path / "images", range(23))
    run(listing, tmp_path / "whole")
    real = pipeline.decode_item

    def dying(item: Any, *arguments: Any) -> Any:
        if item.id == "012.png":
            raise kind("a worker died")
        return real(item, *arguments)

    monkeypatch.setattr(pipeline, "decode_item", dying)
    with pytest.raises(kind, match="a worker died"):
        run(listing, tmp_path / "cache")
    monkeypatch.undo()
    assert not (tmp_path / "cache/manifest.json").exists()
    backbone = Colours()
    run(listing, tmp_path / "cache", backbone)
    assert backbone.embedded == 12
    assert files_of(tmp_path / "cache") == files_of(tmp_path / "whole")


def test_two_extractions_do_not_write_one_cache(world: Path) -> None:
    listing = list_images(world / "images", range(23))
    first = extract(listing, Colours(), world / "other", shard_rows=5)
    next(first)
    with pytest.raises(CacheError, match=f"however: process {os.getpid()} on .* is writing"):
        run(listing, world / "other")
    first.close()
    run(listing, world / "other")
    assert files_of(world / "other") == files_of(world / "cache")


def test_a_recipe_that_states_fields_which_say_nothing_is_the_same(world: Path) -> None:
    cache = world / "cache"
    state = read_json(cache / "cache.json")
    for column in state["columns"].values():
        column["recipe"] |= {"layer": None, "gem_p": None}
    store.write_json(cache / "cache.json", state)
    assert verify_cache(cache).ok
    backbone = Colours()
    run(list_images(world / "images", range(1, 23)), cache, backbone, update=True)
    assert backbone.embedded == 0
    state["columns"]["cls"]["recipe"]["size"] = 9
    store.write_json(cache / "cache.json", state)
    assert not verify_cache(cache).ok
    with pytest.raises(CacheError, match="size of column cls was 9 and is 8"):
        run(list_images(world / "images", range(1, 23)), cache)


def test_tokens_are_merged_as_they_are_stored(world: Path) -> None:
    class Tokens(Colours):
        def embed(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
            means = super().embed(batch)["cls"]
            return {"cls": means, "patch_mean": torch.stack([means, means + 1], dim=1)}

    def tokens() -> Tokens:
        return Tokens(tokens={"patch_mean": 2})

    listing = list_images(world / "images", range(12))
    run(listing, world / "tokens", tokens())
    paint(world / "images/001.png", 200)
    changed = list_images(world / "images", [n for n in range(12) if n != 7])
    run(changed, world / "tokens", backbone := tokens(), update=True)
    assert backbone.embedded == 1
    table = read_table(world / "tokens", ["patch_mean"], verify=True)
    assert table.columns["patch_mean"].shape == (9, 2, 3)
    np.testing.assert_array_equal(table.columns["patch_mean"][1, :, 0], [200, 201])
    assert table.ids[1] == "001.png"


def test_the_updates_of_two_listings_meet_in_the_lock(world: Path) -> None:
    events = extract(change(world / "images"), Colours(), world / "cache", shard_rows=5, update=True)
    next(events)
    with pytest.raises(CacheError, match="one process at a time may write a cache"):
        run(list_images(world / "images", range(5)), world / "cache", update=True)
    assert isinstance(list(events)[-1], Finished)
    assert not (world / "cache/lock.json").exists()


@pytest.mark.parametrize("finished", [True, False])
def test_a_shard_of_another_recipe_is_embedded_anew(world: Path, finished: bool) -> None:
    cache, listing = world / "cache", list_images(world / "images", range(23))
    before = files_of(cache)
    recipe = RECIPE.model_copy(update={"model": "others"})
    run(listing, world / "foreign", Colours(recipes={"cls": recipe, "patch_mean": recipe}))
    shutil.copy(shard_path(world / "foreign", 2), shard_path(cache, 2))
    if not finished:
        (cache / "manifest.json").unlink()
    backbone = Colours()
    events = run(listing, cache, backbone)
    assert any("not as they were written: 1 (part-00002)" in warning for warning in events[0].warnings)
    assert backbone.embedded == 5
    assert files_of(cache) == before
