import json
import shutil

import numpy as np
import pandas as pd
import pytest

SMALL = ("--size", 64)  # a twelfth of the pixels, for tests that do not depend on the vectors


def test_embedding_shows_the_recipe_warns_of_missing_groups_and_counts(frostbench, photos, tmp_path):
    result = frostbench("embed", photos, "--cache", tmp_path / "cache")
    assert result.status == 0
    assert "column avg [1280], recipe " in result.out
    assert "interpolation bicubic" in result.out
    assert "92 of 93 images embedded, 1 quarantined" in result.out
    assert "NO GROUPS" in result.err
    assert "not embedded: digit 0/broken.png: is not an image in a supported format" in result.out
    listed = frostbench("cache", "bad", tmp_path / "cache").out
    assert listed == "digit 0/broken.png\tis not an image in a supported format\n"


def test_a_source_without_a_single_good_image_is_a_failure(frostbench, tmp_path):
    (tmp_path / "photos" / "a").mkdir(parents=True)
    (tmp_path / "photos" / "a" / "1.png").write_bytes(b"no image")
    result = frostbench("embed", tmp_path / "photos", "--cache", tmp_path / "cache")
    assert result.status == 2
    assert "A cache needs at least one image, but 0 of 1 image could be embedded." in result.err


def test_embedding_again_does_nothing(frostbench, photos, cache):
    before = {path: path.stat().st_mtime_ns for path in cache.glob("shards/*")}
    result = frostbench("embed", photos, "--cache", cache)
    assert result.status == 0
    assert "nothing was left to do" in result.out
    assert {path: path.stat().st_mtime_ns for path in cache.glob("shards/*")} == before


def test_groups_come_from_file_names(frostbench, photos, tmp_path):
    result = frostbench("embed", photos, *SMALL, "--cache", tmp_path / "c", "--group-regex", r"/(\d\d|bro)[^/]*\.png$")
    assert result.status == 0, result.err
    assert "NO GROUPS" not in result.err
    assert json.loads(frostbench("cache", "info", tmp_path / "c").out)["groups"] > 1


def test_strict_fails_at_the_end_and_keeps_what_was_computed(frostbench, photos, tmp_path):
    result = frostbench("embed", photos, "--cache", tmp_path / "cache", *SMALL, "--strict")
    assert result.status == 2
    assert "1 of 93 is quarantined" in result.err
    assert "digit 0/broken.png" in result.err
    assert json.loads(frostbench("cache", "info", tmp_path / "cache").out)["n_ok"] == 92


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere", "--cache", "c"], "nowhere"),
        (["PHOTOS", "--cache", "c", "--backbone", "resnet50"], "A backbone must be named PROVIDER:MODEL"),
        (["PHOTOS", "--cache", "c", "--backbone", "timm:resnt50"], "similar: resnet50"),
        (["PHOTOS", "--cache", "c", "--pool", "cls"], "cls"),
        (["PHOTOS", "--cache", "c", "--device", "gpu"], "gpu"),
        (["PHOTOS", "--cache", "c", "--autocast", "int8"], "autocast must be auto, float32"),
    ],
)
def test_errors_are_explained(frostbench, photos, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    result = frostbench("embed", *(photos if word == "PHOTOS" else word for word in words))
    assert result.status == 2
    assert message in result.err
    assert "Traceback" not in result.err


def test_a_cache_is_verified_with_its_canary(frostbench, cache):
    result = frostbench("cache", "verify", cache, "--canary")
    assert result.status == 0
    assert "canary: distance avg 0.000000" in result.out


def test_a_damaged_cache_fails_verification(frostbench, cache, tmp_path):
    shutil.copytree(cache, tmp_path / "copy")
    shard = tmp_path / "copy" / "shards" / "part-00000.parquet"
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    result = frostbench("cache", "verify", tmp_path / "copy")
    assert result.status == 1
    assert "FAIL  SHA-256 of each shard" in result.out


def test_damaged_vectors_are_not_trained_on(frostbench, cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(cache, tmp_path / "copy")
    shard = tmp_path / "copy" / "shards" / "part-00000.parquet"
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    result = frostbench("train", "copy")
    assert result.status == 2
    assert "part-00000" in result.err


def test_a_missing_cache_is_an_error(frostbench, tmp_path):
    result = frostbench("train", tmp_path / "nowhere")
    assert result.status == 2
    assert f"must be an existing folder, but {tmp_path / 'nowhere'} does not exist." in result.err


def test_a_cache_is_exported_for_other_programs(frostbench, cache, tmp_path):
    assert frostbench("cache", "export", cache, tmp_path / "table.parquet").status == 0
    table = pd.read_parquet(tmp_path / "table.parquet")
    assert (len(table), len(table["avg"][0])) == (92, 1280)
    assert frostbench("cache", "export", cache, tmp_path / "npy", "--to", "npy").status == 0
    assert np.load(tmp_path / "npy" / "avg.npy").shape == (92, 1280)


def test_imported_vectors_can_train_but_not_predict_images(frostbench, photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    labels = np.repeat(["cat", "dog"], 60)
    np.save("x.npy", rng.normal(size=(120, 8)) + 2 * (labels == "dog")[:, None])
    pd.DataFrame({"label": labels}).to_csv("rows.csv", index=False)
    result = frostbench("cache", "import", "x.npy", "rows.csv", "--cache", "mine", "--model", "my own network")
    assert result.status == 0, result.err
    assert "unknown recipe fields: weights_sha256, size" in result.out
    trained = frostbench("train", "mine", "--preset", "plain", "--set", "head.classifier.kind=logreg", "--out", "head")
    assert trained.status == 0, trained.err
    assert ": macro F1 " in trained.out
    refused = frostbench("predict", "head", photos)
    assert refused.status == 2
    assert "these were imported, so their recipe is unknown (model 'my own network')" in refused.err


def test_several_backbones_and_sizes_come_from_one_decode(frostbench, photos, tmp_path):
    result = frostbench(
        "embed",
        photos,
        "--cache",
        tmp_path / "cache",
        *("--backbone", "bundled:efficientnet_lite0", "--backbone", "wide=bundled:efficientnet_lite2"),
        *("--size", 64, "--size", 96),
    )
    assert result.status == 0, result.err
    names = ["efficientnet_lite0@64.avg", "efficientnet_lite0@96.avg", "wide@64.avg", "wide@96.avg"]
    columns = json.loads(frostbench("cache", "info", tmp_path / "cache").out)["columns"]
    assert sorted(columns) == names
    assert "93 images, 930.0 KiB of vectors" in result.out
    again = frostbench("cache", "verify", tmp_path / "cache")
    assert again.status == 0


def test_backbones_of_one_name_are_refused(frostbench, photos, tmp_path):
    twice = ("--backbone", "bundled:efficientnet_lite0") * 2
    result = frostbench("embed", photos, "--cache", tmp_path / "cache", *twice)
    assert result.status == 2
    assert "two are called 'efficientnet_lite0'" in result.err


def test_weights_are_of_one_backbone(frostbench, photos, tmp_path):
    both = ("--backbone", "timm:resnet18", "--backbone", "timm:resnet34")
    result = frostbench("embed", photos, "--cache", tmp_path / "cache", *both, "--weights", tmp_path / "w")
    assert result.status == 2
    assert "--weights applies to one backbone, got 2" in result.err


def test_patch_tokens_need_confirmation(tmp_path, capsys):
    from frostbench.app.actions.embedding import check_disk
    from frostbench.embedcache.extraction.backbone_group import backbone_group

    class Tokens:
        recipes, dims, tokens, provenance, batch = {"tokens": None}, {"tokens": 384}, {"tokens": 196}, {}, 8

    members = backbone_group.__globals__["BackboneGroup"].__new__(backbone_group.__globals__["BackboneGroup"])
    members.members = {"": Tokens()}
    with pytest.raises(
        ValueError, match=r"Patch tokens take 14.4 MiB of the 14.4 MiB\. Storing them needs confirmation: add --yes"
    ):
        check_disk(members, 100, tmp_path, agreed=False)
    check_disk(members, 100, tmp_path, agreed=True)
    with pytest.raises(ValueError, match=r"The vectors need .* of disk space, but only"):
        check_disk(members, 10**12, tmp_path, agreed=True)


def test_view_sets_are_made_listed_and_trained_on(frostbench, small_cache, tmp_path):
    shutil.copytree(small_cache, tmp_path / "cache")
    result = frostbench("views", "make", tmp_path / "cache", "mixed", "--policy", "cutmix", "--set", "alpha=0.5")
    assert result.status == 0, result.err
    assert "views by cutmix(alpha=0.5), 0 quarantined" in result.out
    assert "To train on these views: --set view_sets=[mixed]" in result.out
    result = frostbench("views", "make", tmp_path / "cache", "flip", "--policy", "flip", "--role", "eval")
    assert "To average predictions over these views: --set tta=[flip]" in result.out
    listed = frostbench("views", "list", tmp_path / "cache").out.splitlines()
    assert [line.split("\t")[:2] for line in listed] == [["flip", "eval"], ["mixed", "train"]]
    assert "no view sets" in frostbench("views", "list", small_cache).out
    result = frostbench("views", "list", tmp_path)
    assert (result.status, result.out) == (2, "")
    assert "A cache contains cache.json, but" in result.err


def test_views_are_drawn(frostbench, photos, tmp_path):
    from PIL import Image

    files = sorted(photos.glob("digit 1/*.png"))[:2]
    result = frostbench("views", "show", *files, "--policy", "cutmix", "--count", 3, "--out", tmp_path / "views.png")
    assert result.status == 0, result.err
    with Image.open(tmp_path / "views.png") as sheet:
        assert sheet.size == (4 * 160 + 3 * 8, 2 * 160 + 8)
    result = frostbench("views", "show", "nope.png", "--policy", "flip", "--out", tmp_path / "views.png")
    assert result.status == 2
    assert "Cannot read image nope.png: the file does not exist. Check the path, or give another image." in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--policy", "zoom"], "a policy must be one of flip"),
        (["--policy", "cutmix", "--set", "alpha"], "A setting must be written NAME=VALUE"),
        (["--policy", "cutmix", "--set", "beta=1"], "beta: Extra inputs are not permitted"),
        (["--policy", "crops", "--count", 5], "must be in 1..4, got 5"),
    ],
)
def test_errors_of_views_are_explained(frostbench, cache, words, message):
    result = frostbench("views", "make", cache, "x", *words)
    assert result.status == 2
    assert message in result.err


def test_parts_of_a_cache_report_the_remaining_shards(frostbench, photos, cache, tmp_path):
    words = ["embed", photos, "--cache", tmp_path / "cache", *SMALL, "--shard-rows", 40]
    first = frostbench(*words, "--shard", "0/2")
    assert first.status == 0, first.err
    assert "part 0/2 is done, 53 images (53 in this run); shards left to other parts: 1" in first.out
    assert not (tmp_path / "cache" / "manifest.json").exists()
    second = frostbench(*words, "--shard", "1/2")
    assert "part 1/2 is done, 40 images (40 in this run); shards left to other parts: 0" in second.out
    assert "92 of 93 images embedded, 1 quarantined" in second.out


@pytest.mark.parametrize("option", ["--batch", "--workers", "--shard-rows", "--pixel-limit"])
def test_numbers_out_of_bounds_are_found_before_a_model_is_loaded(frostbench, photos, tmp_path, option):
    words = ("--backbone", "timm:no_such_model", "--cache", tmp_path / "cache")
    result = frostbench("embed", photos, *words, option, "0")
    assert result.status == 2
    assert option in result.err
    assert "greater than or equal to 1" in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--shard", "3/2"], "I from 0 to N-1, got 3/2"),
        (["--shard", "a/b"], "a part must be written as I/N with two whole numbers, got 'a/b'"),
        (["--shard", "0/2", "--update"], "--shard 0/2 cannot be combined with --update"),
        (["--shard", "0/2", "--engine", "ray"], "--shard 0/2 cannot be combined with --engine ray"),
        (["--engine", "spark"], "--engine must be local or ray, got 'spark'. Choose one of them."),
        (["--engine", "ray", "--actors", "0"], "needs at least 1 actor, got --actors 0. Increase it."),
        (["--actors", "2"], "need --engine ray, but the engine is local. Add --engine ray"),
    ],
)
def test_errors_of_dividing_are_explained(frostbench, photos, tmp_path, words, message):
    result = frostbench("embed", photos, "--cache", tmp_path / "cache", *words)
    assert result.status == 2
    assert message in result.err
    assert not (tmp_path / "cache").exists()
