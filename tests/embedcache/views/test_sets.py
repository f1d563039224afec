"""View sets: selected images, content, resuming and refusals."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flips import flips
from seeing import Halves, write_images

from frostbench.embedcache.checking.doctor import diagnose, treat
from frostbench.embedcache.checking.verify import verify_cache
from frostbench.embedcache.extraction.events import BatchDone, Finished
from frostbench.embedcache.extraction.extract import extract
from frostbench.embedcache.sources.folders import list_folder
from frostbench.embedcache.splits.making import load_or_make_split
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.embedcache.storage.files import CacheError, read_json, write_json
from frostbench.embedcache.storage.state import read_quarantine
from frostbench.embedcache.table import read_table
from frostbench.embedcache.views.catalogue import read_policy
from frostbench.embedcache.views.embedding import make_views
from frostbench.embedcache.views.sets import fingerprint, list_views, read_views


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make a cache of 40 images in three classes, one of them rare, with its split."""
    root = tmp_path_factory.mktemp("views")
    write_images(root / "images", {"ash": 18, "beech": 16, "cedar": 6})
    list(extract(list_folder(root / "images"), Halves(), root / "cache", shard_rows=16))
    table = read_table(root / "cache")
    return root / "cache", table, load_or_make_split(root / "cache", table, SplitSpec())


def run(made, name, kind, backbone=None, **options):
    cache, _, split = made
    settings = options.pop("settings", {})
    return list(make_views(cache, name, backbone or Halves(), read_policy(kind, settings), split, **options))


def test_flips_of_training_rows_are_their_images_mirrored(made):
    cache, table, split = made
    events = run(made, "flip", "flip")
    assert isinstance(events[-1], Finished)
    found = read_views(cache, "flip", table)
    assert sorted(found.rows.tolist()) == np.flatnonzero(split.roles == "train").tolist()
    # Left and right are swapped.
    own = table.columns["cls"][found.rows]
    np.testing.assert_allclose(found.table.columns["cls"], np.roll(own, 3, axis=1), atol=2e-2)
    assert found.table.labels.tolist() == table.labels[found.rows].tolist()
    assert (found.shares == 1).all()
    assert (found.partner_labels == -1).all()
    assert found.table.recipes["cls"].view == "flip() seed 0"
    assert verify_cache(cache / "views" / "flip").ok
    assert "flip" in list_views(cache)
    assert verify_cache(cache).ok


def test_views_for_judging_are_of_the_other_rows(made):
    cache, table, split = made
    run(made, "corners", "crops", count=4, role="eval")
    found = read_views(cache, "corners", table)
    assert set(found.rows.tolist()) == set(np.flatnonzero(split.roles != "train").tolist())
    assert np.bincount(found.rows)[found.rows].tolist() == [4] * len(found.rows)
    assert sorted(set(found.numbers.tolist())) == [0, 1, 2, 3]


def test_cutmix_has_partners_among_training_rows_and_vectors_between(made):
    cache, table, _ = made
    run(made, "cut", "cutmix", count=2, seed=5)
    found = read_views(cache, "cut", table)
    assert ((found.shares >= 0) & (found.shares <= 1)).all()
    assert len(set(found.shares.tolist())) > 20
    assert set(found.partner_labels.tolist()) == {0, 1, 2}
    # The image contributes its share to the mean colour of the view.
    whole = found.table.columns["cls"].astype(np.float64).reshape(-1, 2, 3).mean(1)
    own = table.columns["cls"][found.rows].astype(np.float64).reshape(-1, 2, 3).mean(1)
    large = found.shares > 0.97
    assert large.any()
    assert np.abs(whole - own)[large].max() < np.abs(whole - own).max() / 2


def test_the_same_settings_give_the_same_bytes_and_others_another_set(made):
    cache, _, _ = made
    run(made, "first", "random_crop", count=2, seed=1)
    run(made, "second", "random_crop", count=2, seed=1)
    run(made, "third", "random_crop", count=2, seed=2)
    assert fingerprint(cache, "first") == fingerprint(cache, "second") != fingerprint(cache, "third")


def test_more_views_leave_the_first_as_they_are(made):
    cache, table, _ = made
    run(made, "one", "random_crop", count=1, seed=9)
    run(made, "three", "random_crop", count=3, seed=9)
    one, three = (read_views(cache, name, table) for name in ("one", "three"))
    first = three.numbers == 0
    np.testing.assert_array_equal(three.table.columns["cls"][first], one.table.columns["cls"])


def test_a_stopped_set_goes_on_and_knows_all_shares(made):
    cache, table, split = made
    policy = read_policy("cutmix", {})
    list(make_views(cache, "whole", Halves(), policy, split, batch=4))
    wanted = read_views(cache, "whole", table)
    stopped = make_views(cache, "broken", Halves(), policy, split, batch=4)
    for event in stopped:
        if isinstance(event, BatchDone) and event.n_done >= 8:
            break
    stopped.close()
    with pytest.raises(CacheError, match=r"must have a finished view set 'broken', but has .*views make"):
        read_views(cache, "broken", table)
    again = Halves()
    list(make_views(cache, "broken", again, policy, split, batch=4))
    found = read_views(cache, "broken", table)
    np.testing.assert_array_equal(found.shares, wanted.shares)
    np.testing.assert_array_equal(found.table.columns["cls"], wanted.table.columns["cls"])


def test_shares_of_views_from_an_earlier_run_are_found_again(made):
    cache, table, split = made
    list(make_views(cache, "lost", Halves(), read_policy("cutmix", {}), split))
    wanted = read_views(cache, "lost", table)
    (cache / "views" / "lost" / "views.parquet").unlink()
    still = Halves()
    list(make_views(cache, "lost", still, read_policy("cutmix", {}), split))
    # Only the canary was embedded.
    assert still.embedded == 1
    np.testing.assert_array_equal(read_views(cache, "lost", table).shares, wanted.shares)


def test_transplants_are_of_rare_classes_and_keep_their_label(made):
    cache, table, split = made
    rare = int(np.bincount(table.labels[split.roles == "train"])[2])
    run(made, "moved", "transplant", count=3, settings={"rare_below": rare + 1, "grid": 2, "share": 0.5})
    found = read_views(cache, "moved", table)
    assert set(found.table.labels.tolist()) == {2}
    assert len(found.rows) == 3 * rare
    assert (found.shares == 1).all()


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("flip", {"count": 2}, r"must be in 1\.\.1, got 2"),
        ("cutmix", {"role": "eval"}, "averaging predictions must show one image"),
        ("transplant", {"settings": {"rare_below": 2}}, "0 of 3 classes have fewer than 2 training images"),
    ],
)
def test_views_that_cannot_be_are_refused(made, kind, options, message):
    with pytest.raises(ValueError, match=message):
        run(made, "refused", kind, **options)
    assert "refused" not in list_views(made[0])


def test_another_backbone_is_refused(made):
    with pytest.raises(ValueError, match=r"in column 'cls' size was 8 and is 16; resize was 8 and is 16"):
        run(made, "refused", "flip", backbone=Halves(size=16))


def test_other_settings_under_one_name_are_refused(made):
    run(made, "taken", "random_crop", seed=1)
    with pytest.raises(CacheError, match="with its original settings"):
        run(made, "taken", "random_crop", seed=2)


def test_views_of_a_cache_that_changed_are_refused(made):
    cache, table, _ = made
    run(made, "old", "flip")
    other = replace(table, labels=(table.labels + 1) % 3)
    with pytest.raises(CacheError, match=r"has changed since 'old' was made. Delete"):
        read_views(cache, "old", other)


def test_a_partner_that_is_gone_is_quarantined_with_its_name(made, tmp_path):
    cache, _, _ = made
    images = tmp_path / "images"
    shutil.copytree(cache.parent / "images", images)
    list(extract(list_folder(images), Halves(), tmp_path / "cache"))
    own = read_table(tmp_path / "cache")
    own_split = load_or_make_split(tmp_path / "cache", own, SplitSpec())
    (images / str(own.ids[np.flatnonzero(own_split.roles == "train")[0]])).unlink()
    list(make_views(tmp_path / "cache", "cut", Halves(), read_policy("cutmix", {}), own_split))
    from frostbench.embedcache.storage.state import read_quarantine

    reasons = {row["reason"] for row in read_quarantine(tmp_path / "cache" / "views" / "cut")}
    assert any(reason.startswith("the partner ") and "does not exist" in reason for reason in reasons)


def test_attention_is_asked_of_models_alone(made):
    with pytest.raises(ValueError, match=r"attention saliency requires a Backbone, got a Halves"):
        run(made, "blind", "transplant", settings={"rare_below": 9, "saliency": "attention"})


def test_a_name_is_a_file_name(made):
    with pytest.raises(ValueError, match="the name of a view set must be a letter or digit and"):
        run(made, "../up", "flip")


def test_a_set_of_a_changed_cache_says_what_to_do(made):
    cache, _, split = made
    run(made, "stale", "flip")
    with pytest.raises(CacheError, match=r"but .*stale was made with another value of: the split\. Delete that folder"):
        list(make_views(cache, "stale", Halves(), read_policy("flip", {}), replace(split, hash="other")))


def test_a_cross_validated_split_has_no_views(made):
    cache, _, split = made
    folds = replace(split, folds=np.zeros((1, len(split.roles)), np.int8))
    with pytest.raises(ValueError, match="this one is cross-validated"):
        list(make_views(cache, "folds", Halves(), read_policy("flip", {}), folds))


def test_a_partner_that_is_mended_is_tried_again(made, tmp_path):
    cache, _, _ = made
    images = tmp_path / "images"
    shutil.copytree(cache.parent / "images", images)
    list(extract(list_folder(images), Halves(), tmp_path / "cache"))
    own = read_table(tmp_path / "cache")
    split = load_or_make_split(tmp_path / "cache", own, SplitSpec())
    gone = images / str(own.ids[np.flatnonzero(split.roles == "train")[3]])
    content = gone.read_bytes()
    gone.unlink()
    policy = read_policy("cutmix", {})
    list(make_views(tmp_path / "cache", "cut", Halves(), policy, split))
    before = read_views(tmp_path / "cache", "cut", own)
    gone.write_bytes(content)
    list(make_views(tmp_path / "cache", "cut", Halves(), policy, split))
    after = read_views(tmp_path / "cache", "cut", own)
    assert len(before.rows) < len(after.rows) == int((split.roles == "train").sum())
    list(make_views(tmp_path / "cache", "whole", Halves(), policy, split))
    np.testing.assert_array_equal(after.shares, read_views(tmp_path / "cache", "whole", own).shares)


def fresh(made, tmp_path):
    """Copy the images and make a cache of them, so that files can be replaced."""
    shutil.copytree(made[0].parent / "images", tmp_path / "images")
    list(extract(list_folder(tmp_path / "images"), Halves(), tmp_path / "cache", shard_rows=16))
    table = read_table(tmp_path / "cache")
    return tmp_path / "cache", table, load_or_make_split(tmp_path / "cache", table, SplitSpec())


@pytest.mark.parametrize("kind", ["flip", "cutmix"])
def test_a_picture_that_was_exchanged_since_has_no_view(made, tmp_path, kind):
    cache, table, split = world = fresh(made, tmp_path)
    first, second = np.flatnonzero(split.roles == "train")[[0, -1]]
    ids = table.ids.tolist()
    one, other = (tmp_path / "images" / ids[row] for row in (first, second))
    held = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(held)
    run(world, "exchanged", kind)
    found = read_views(cache, "exchanged", table)
    assert not {first, second} & set(found.rows.tolist())
    reasons = {row["id"].partition("#")[0]: row["reason"] for row in read_quarantine(cache / "views" / "exchanged")}
    assert set(reasons) >= {ids[first], ids[second]}
    own = {reasons.pop(ids[row]) for row in (first, second)}
    assert own == {
        "has changed since the cache was made; put the old file back, or embed again with --update and make this view "
        "set again"
    }
    # An image whose partner was replaced has no view either.
    assert all(reason.startswith("the partner ") for reason in reasons.values())
    assert bool(reasons) == (kind == "cutmix")
    other.write_bytes(one.read_bytes())
    one.write_bytes(held)
    run(world, "exchanged", kind)
    run(world, "clean", kind)
    assert fingerprint(cache, "exchanged") == fingerprint(cache, "clean")


def test_views_of_exchanged_pictures_that_an_earlier_version_made_are_refused(made, tmp_path, monkeypatch):
    cache, table, split = world = fresh(made, tmp_path)
    row = np.flatnonzero(split.roles == "train")[0]
    image = tmp_path / "images" / table.ids[row]
    image.write_bytes(next(p for p in image.parent.iterdir() if p != image).read_bytes())
    monkeypatch.setattr("frostbench.embedcache.views.making.Maker._check", lambda *_: None)
    run(world, "stale", "flip")
    with pytest.raises(
        CacheError, match=rf"1 of \d+ views of 'stale' was made from changed files.*{table.ids[row]}.*make it"
    ):
        read_views(cache, "stale", table)
    assert [check.name for check in verify_cache(cache).checks if not check.ok] == ["view sets"]
    [finding] = diagnose(cache)
    assert finding.what.startswith("views must show the images of their cache")


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("name", ["views.parquet", "shards/part-00000.parquet", "items.parquet", "cache.json"])
def test_any_flip_in_a_view_set_is_noticed(made, tmp_path, name, stored):
    cache = copied(made, tmp_path)
    run((cache, *made[1:]), "cut", "cutmix", seed=3)
    table = read_table(cache)

    def read():
        for column in read_views(cache, "cut", table, stored=stored).table.stored.values():
            column.read(0, 1)

    for _ in flips(cache / "views" / "cut" / name, 25):
        with pytest.raises(CacheError):
            read()
    read()


def copied(made, tmp_path):
    return Path(shutil.copytree(made[0], tmp_path / "cache", ignore=shutil.ignore_patterns("views")))


def test_a_set_of_an_earlier_version_is_read_and_the_doctor_adds_its_digests(made, tmp_path):
    cache = copied(made, tmp_path)
    run((cache, *made[1:]), "old", "flip")
    wanted, path = fingerprint(cache, "old"), cache / "views" / "old" / "manifest.json"
    manifest = read_json(path)
    write_json(path, {name: value for name, value in manifest.items() if name not in ("cache_sha256", "views_sha256")})
    assert len(read_views(cache, "old", read_table(cache)).rows) > 0
    [finding] = diagnose(cache)
    assert finding.harmless
    assert "lacks the SHA-256 of cache.json and views.parquet" in finding.what
    assert treat(cache) == [f"added the SHA-256 of cache.json and views.parquet to {path}"]
    assert (read_json(path), diagnose(cache), fingerprint(cache, "old")) == (manifest, [], wanted)
