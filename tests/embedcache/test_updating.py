"""Updates of caches: embedded rows, kept rows, and equality with a new cache."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from colour_images import RECIPE, Colours, files_of, list_images, make_images, paint, run, sha_of
from updates import BAD, assert_same_rows, change

from frostbench.embedcache.checking.verify import verify_cache
from frostbench.embedcache.extraction import pipeline
from frostbench.embedcache.extraction.events import Finished, ShardDone, Stopped
from frostbench.embedcache.storage import store
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.storage.sealing import seal
from frostbench.embedcache.storage.store import read_json, shard_path
from frostbench.embedcache.table import read_table


def test_a_single_change_is_told_in_the_singular(world: Path) -> None:
    make_images(world / "images", [23])
    listing = list_images(world / "images", range(1, 24))
    message = r"1 image is new \['023.png'\]; 1 image is gone \['000.png'\]"
    with pytest.raises(CacheError, match=message):
        run(listing, world / "cache")
    other = list_images(world / "images", range(23), group=lambda n: "g9" if n == 3 else f"g{n // 2}")
    with pytest.raises(CacheError, match=r"1 image has another path, label, group, split or time \['003.png'\]"):
        run(other, world / "cache")


def test_an_update_embeds_new_and_changed_images_only(world: Path) -> None:
    cache, listing = world / "cache", change(world / "images")
    before = [sha_of(shard_path(cache, i)) for i in range(5)]
    message = r"6 images are new .*3 images are gone .*2 images have another .*Add --update"
    with pytest.raises(CacheError, match=message):
        run(listing, cache)
    backbone = Colours()
    events = run(listing, cache, backbone, update=True)
    assert backbone.embedded == 1 + 5
    assert any("was updated: 6 images are new" in warning for warning in events[0].warnings)
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
    # 0-3 and 20-24 are listed again, of which 3 and 21 are bad; then 0, 2, 4, … 24.
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
    stop_calls = iter(range(100))
    make_images(world / "images", range(23), BAD)
    listing = list_images(world / "images", range(23))
    assert isinstance(run(listing, world / "half", stop=lambda: next(stop_calls) == 3)[-1], Stopped)
    changed, backbone = change(world / "images"), Colours()
    run(changed, world / "half", backbone, update=True)
    run(changed, world / "fresh")
    assert_same_rows(world / "half", world / "fresh")
    # Shards 0 and 1 were finished: 0, 2, 4, 5 and 6 of the 22 rows are kept.
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


def test_a_recipe_that_states_fields_which_say_nothing_is_the_same(world: Path) -> None:
    cache = world / "cache"
    state = read_json(cache / "cache.json")
    for column in state["columns"].values():
        column["recipe"] |= {"layer": None, "gem_p": None}
    store.write_json(cache / "cache.json", state)
    seal(cache)
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
    assert any("Damaged shards: 1 (part-00002)" in warning for warning in events[0].warnings)
    assert backbone.embedded == 5
    assert files_of(cache) == before
