import json
import shutil

import numpy as np
import pandas as pd
import pytest

SMALL = ("--size", 64)  # a twelfth of the pixels, where it is not about the vectors


def test_embedding_shows_the_recipe_warns_of_missing_groups_and_counts(frostbench, photos, tmp_path):
    said = frostbench("embed", photos, "--cache", tmp_path / "cache")
    assert said.status == 0
    assert "column avg [1280], recipe " in said.out
    assert "interpolation bicubic" in said.out
    assert "92 of 93 images embedded, 1 quarantined" in said.out
    assert "NO GROUPS" in said.err
    assert "not embedded: digit 0/broken.png: is not an image in a format that is read here" in said.out
    listed = frostbench("cache", "bad", tmp_path / "cache").out
    assert listed == "digit 0/broken.png\tis not an image in a format that is read here\n"


def test_a_source_without_a_single_good_image_is_a_failure(frostbench, tmp_path):
    (tmp_path / "photos" / "a").mkdir(parents=True)
    (tmp_path / "photos" / "a" / "1.png").write_bytes(b"no image")
    said = frostbench("embed", tmp_path / "photos", "--cache", tmp_path / "cache")
    assert said.status == 2
    assert "none of the 1 could be embedded" in said.err


def test_embedding_again_does_nothing_twice(frostbench, photos, cache):
    before = {path: path.stat().st_mtime_ns for path in cache.glob("shards/*")}
    said = frostbench("embed", photos, "--cache", cache)
    assert said.status == 0
    assert "nothing was left to do" in said.out
    assert {path: path.stat().st_mtime_ns for path in cache.glob("shards/*")} == before


def test_groups_come_from_file_names(frostbench, photos, tmp_path):
    said = frostbench("embed", photos, *SMALL, "--cache", tmp_path / "c", "--group-regex", r"/(\d\d|bro)[^/]*\.png$")
    assert said.status == 0, said.err
    assert "NO GROUPS" not in said.err
    assert json.loads(frostbench("cache", "info", tmp_path / "c").out)["groups"] > 1


def test_strict_fails_at_the_end_and_keeps_what_was_computed(frostbench, photos, tmp_path):
    said = frostbench("embed", photos, "--cache", tmp_path / "cache", *SMALL, "--strict")
    assert said.status == 2
    assert "1 of 93 are in the quarantine" in said.err
    assert "digit 0/broken.png" in said.err
    assert json.loads(frostbench("cache", "info", tmp_path / "cache").out)["n_ok"] == 92


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere", "--cache", "c"], "nowhere"),
        (["PHOTOS", "--cache", "c", "--backbone", "resnet50"], "a backbone is named PROVIDER:MODEL"),
        (["PHOTOS", "--cache", "c", "--backbone", "timm:resnt50"], "close: resnet50"),
        (["PHOTOS", "--cache", "c", "--pool", "cls"], "cls"),
        (["PHOTOS", "--cache", "c", "--device", "gpu"], "gpu"),
        (["PHOTOS", "--cache", "c", "--autocast", "int8"], "autocast must be auto, float32"),
    ],
)
def test_mistakes_are_told_in_words(frostbench, photos, tmp_path, monkeypatch, words, told):
    monkeypatch.chdir(tmp_path)
    said = frostbench("embed", *(photos if word == "PHOTOS" else word for word in words))
    assert said.status == 2
    assert told in said.err
    assert "Traceback" not in said.err


def test_a_cache_is_verified_with_its_canary(frostbench, cache):
    said = frostbench("cache", "verify", cache, "--canary")
    assert said.status == 0
    assert "canary: distance avg 0.000000" in said.out


def test_a_damaged_cache_fails_verification(frostbench, cache, tmp_path):
    shutil.copytree(cache, tmp_path / "copy")
    shard = tmp_path / "copy" / "shards" / "part-00000.parquet"
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    said = frostbench("cache", "verify", tmp_path / "copy")
    assert said.status == 1
    assert "FAIL  SHA-256 of each shard" in said.out


def test_damaged_vectors_are_not_trained_on(frostbench, cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(cache, tmp_path / "copy")
    shard = tmp_path / "copy" / "shards" / "part-00000.parquet"
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    said = frostbench("train", "copy")
    assert said.status == 2
    assert "part-00000" in said.err


def test_a_cache_that_is_not_there_is_told_as_such(frostbench, tmp_path):
    said = frostbench("train", tmp_path / "nowhere")
    assert said.status == 2
    assert f"a cache is a folder, however: {tmp_path / 'nowhere'} does not exist. Is the path right?" in said.err


def test_a_cache_is_exported_for_other_programs(frostbench, cache, tmp_path):
    assert frostbench("cache", "export", cache, tmp_path / "table.parquet").status == 0
    table = pd.read_parquet(tmp_path / "table.parquet")
    assert (len(table), len(table["avg"][0])) == (92, 1280)
    assert frostbench("cache", "export", cache, tmp_path / "npy", "--to", "npy").status == 0
    assert np.load(tmp_path / "npy" / "avg.npy").shape == (92, 1280)


def test_vectors_from_elsewhere_are_imported_trained_on_and_refused_for_images(
    frostbench, photos, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    labels = np.repeat(["cat", "dog"], 60)
    np.save("x.npy", rng.normal(size=(120, 8)) + 2 * (labels == "dog")[:, None])
    pd.DataFrame({"label": labels}).to_csv("rows.csv", index=False)
    said = frostbench("cache", "import", "x.npy", "rows.csv", "--cache", "mine", "--model", "my own network")
    assert said.status == 0, said.err
    assert "unknown in their recipe: weights_sha256, size" in said.out
    trained = frostbench("train", "mine", "--preset", "plain", "--set", "head.classifier.kind=logreg", "--out", "head")
    assert trained.status == 0, trained.err
    assert ": macro F1 " in trained.out
    refused = frostbench("predict", "head", photos)
    assert refused.status == 2
    assert "these were imported and nobody knows how they were made (my own network)" in refused.err


def test_several_backbones_and_sizes_come_from_one_decode(frostbench, photos, tmp_path):
    said = frostbench(
        "embed",
        photos,
        "--cache",
        tmp_path / "cache",
        *("--backbone", "bundled:efficientnet_lite0", "--backbone", "wide=bundled:efficientnet_lite2"),
        *("--size", 64, "--size", 96),
    )
    assert said.status == 0, said.err
    names = ["efficientnet_lite0@64.avg", "efficientnet_lite0@96.avg", "wide@64.avg", "wide@96.avg"]
    columns = json.loads(frostbench("cache", "info", tmp_path / "cache").out)["columns"]
    assert sorted(columns) == names
    assert "93 images, 930.0 KiB of vectors" in said.out
    again = frostbench("cache", "verify", tmp_path / "cache")
    assert again.status == 0


def test_backbones_of_one_name_are_refused(frostbench, photos, tmp_path):
    twice = ("--backbone", "bundled:efficientnet_lite0") * 2
    said = frostbench("embed", photos, "--cache", tmp_path / "cache", *twice)
    assert said.status == 2
    assert "two are called 'efficientnet_lite0'" in said.err


def test_weights_are_of_one_backbone(frostbench, photos, tmp_path):
    both = ("--backbone", "timm:resnet18", "--backbone", "timm:resnet34")
    said = frostbench("embed", photos, "--cache", tmp_path / "cache", *both, "--weights", tmp_path / "w")
    assert said.status == 2
    assert "a file of weights belongs to one backbone" in said.err


def test_patch_tokens_are_agreed_to(tmp_path, capsys):
    from frostbench.app.actions.embedding import _check_disk
    from frostbench.embedcache.extraction.backbone_group import backbone_group

    class Tokens:
        recipes, dims, tokens, provenance, batch = {"tokens": None}, {"tokens": 384}, {"tokens": 196}, {}, 8

    members = backbone_group.__globals__["BackboneGroup"].__new__(backbone_group.__globals__["BackboneGroup"])
    members.members = {"": Tokens()}
    with pytest.raises(ValueError, match=r"patch tokens take 14.4 MiB of the 14.4 MiB. Add --yes"):
        _check_disk(members, 100, tmp_path, agreed=False)
    _check_disk(members, 100, tmp_path, agreed=True)
    with pytest.raises(ValueError, match="must fit on the disk"):
        _check_disk(members, 10**12, tmp_path, agreed=True)


def test_view_sets_are_made_listed_and_trained_on(frostbench, small_cache, tmp_path):
    shutil.copytree(small_cache, tmp_path / "cache")
    said = frostbench("views", "make", tmp_path / "cache", "mixed", "--policy", "cutmix", "--set", "alpha=0.5")
    assert said.status == 0, said.err
    assert "views by cutmix(alpha=0.5), 0 quarantined" in said.out
    assert "Train on them: view_sets=[mixed]" in said.out
    said = frostbench("views", "make", tmp_path / "cache", "flip", "--policy", "flip", "--role", "eval")
    assert "Average over them: tta=[flip]" in said.out
    listed = frostbench("views", "list", tmp_path / "cache").out.splitlines()
    assert [line.split("\t")[:2] for line in listed] == [["flip", "eval"], ["mixed", "train"]]
    assert "no view sets" in frostbench("views", "list", small_cache).out
    said = frostbench("views", "list", tmp_path)
    assert (said.status, said.out) == (2, "")
    assert "a cache holds cache.json, however" in said.err


def test_views_are_drawn(frostbench, photos, tmp_path):
    from PIL import Image

    files = sorted(photos.glob("digit 1/*.png"))[:2]
    said = frostbench("views", "show", *files, "--policy", "cutmix", "--count", 3, "--out", tmp_path / "views.png")
    assert said.status == 0, said.err
    with Image.open(tmp_path / "views.png") as sheet:
        assert sheet.size == (4 * 160 + 3 * 8, 2 * 160 + 8)
    said = frostbench("views", "show", "nope.png", "--policy", "flip", "--out", tmp_path / "views.png")
    assert said.status == 2
    assert "however: nope.png: the file does not exist. Is the path right?" in said.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--policy", "zoom"], "a policy is one of flip"),
        (["--policy", "cutmix", "--set", "alpha"], "a setting is written NAME=VALUE"),
        (["--policy", "cutmix", "--set", "beta=1"], "beta: Extra inputs are not permitted"),
        (["--policy", "crops", "--count", 5], "makes 1..4 views"),
    ],
)
def test_mistakes_in_views_are_told(frostbench, cache, words, told):
    said = frostbench("views", "make", cache, "x", *words)
    assert said.status == 2
    assert told in said.err


def test_parts_of_a_cache_say_what_is_left_and_the_last_one_counts(frostbench, photos, cache, tmp_path):
    words = ["embed", photos, "--cache", tmp_path / "cache", *SMALL, "--shard-rows", 40]
    first = frostbench(*words, "--shard", "0/2")
    assert first.status == 0, first.err
    assert "part 0/2 is done, 53 images (53 in this run); shards left to other parts: 1" in first.out
    assert not (tmp_path / "cache" / "manifest.json").exists()
    second = frostbench(*words, "--shard", "1/2")
    assert "part 1/2 is done, 40 images (40 in this run); shards left to other parts: 0" in second.out
    assert "92 of 93 images embedded, 1 quarantined" in second.out


@pytest.mark.parametrize("option", ["--batch", "--workers", "--shard-rows", "--pixel-limit"])
def test_numbers_out_of_bounds_are_told_before_a_model_is_loaded(frostbench, photos, tmp_path, option):
    words = ("--backbone", "timm:no_such_model", "--cache", tmp_path / "cache")
    said = frostbench("embed", photos, *words, option, "0")
    assert said.status == 2
    assert option in said.err
    assert "greater than or equal to 1" in said.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--shard", "3/2"], "I from 0 to N-1, however: 3/2"),
        (["--shard", "a/b"], "a part is written I/N, two whole numbers, however: 'a/b'"),
        (["--shard", "0/2", "--update"], "however: --shard 0/2 and --update came"),
        (["--shard", "0/2", "--engine", "ray"], "--shard 0/2 and --engine ray"),
        (["--engine", "spark"], "--engine is local or ray, however: 'spark' came. Choose one of them."),
        (["--engine", "ray", "--actors", "0"], "needs at least 1 actor, however: --actors 0 came. Raise it."),
        (["--actors", "2"], "belong to --engine ray, however: the engine is local. Add --engine ray"),
    ],
)
def test_mistakes_in_dividing_are_told_in_words(frostbench, photos, tmp_path, words, told):
    said = frostbench("embed", photos, "--cache", tmp_path / "cache", *words)
    assert said.status == 2
    assert told in said.err
    assert not (tmp_path / "cache").exists()
