"""Bugs reported by users of other tools, each with a test here or, by name, elsewhere."""

import ast
import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from colour_images import RECIPE, Colours, files_of, list_images, make_images, paint, run
from PIL import Image

from frostbench.embedcache.decode import DecodeError, decode_file
from frostbench.embedcache.sources.folders import list_folder
from frostbench.embedcache.splits.making import SplitSpec, make_split
from frostbench.embedcache.storage.store import CacheError, read_bad, read_json
from frostbench.embedcache.table import read_table

ROOT = Path(__file__).parents[2]
TESTS = "tests/embedcache/"
ELSEWHERE = {
    "autogluon#3207: one bad image ends the run": TESTS
    + "test_extract.py::test_strict_raises_after_everything_is_stored",
    "fastdup#324: bad images shift rows": TESTS + "test_extract.py::test_failures_never_shift_rows",
    "thingsvision#3: files, names and rows disagree": TESTS
    + "test_store.py::test_manifest_refuses_rows_that_do_not_add_up",
    "clip-retrieval#368: a kill restarts at zero": TESTS
    + "test_extract_resuming.py::test_killed_and_resumed_is_byte_identical",
    "open_clip#1068: preprocessing of the architecture": TESTS
    + "backbones/test_open_clip.py::test_weights_by_file_take_the_preprocessing_of_the_tag",
    "pytorch-image-models#2681: default pooling": TESTS
    + "backbones/test_timm_poolings.py::test_timms_default_for_dinov3_is_the_patch_mean_and_is_not_stored_by_default",
    "dinov3#99: training mode": TESTS + "backbones/test_loading.py::test_embedding_is_evaluation_and_repeats",
    "dinov2#223: unscaled pixels": TESTS
    + "backbones/test_preparation.py::test_preparation_is_timms_evaluation_transform_pixel_for_pixel",
    "pytorch-image-models#957, ultralytics#13936: a missing class shifts labels": TESTS
    + "test_table.py::test_classes_without_rows_keep_their_place",
    "pytorch/vision#4925: an empty class folder": TESTS + "test_sources.py::test_an_empty_class_stays_in_the_list",
    "ImageNetV2#10: folders sorted as text": TESTS
    + "test_sources.py::test_integer_classes_are_sorted_as_numbers_with_a_warning",
    "datasets#6252: EXIF rotation": TESTS + "test_decode.py::test_the_exif_orientation_is_applied_once",
    "Pillow#2574: 16-bit clipped": TESTS + "test_decode.py::test_16_bit_grey_is_scaled_not_clipped",
    "Pillow#5991: 16-bit big-endian": TESTS + "test_decode.py::test_big_endian_16_bit_grey",
    "pytorch/vision#138: truncated JPEG": TESTS + "test_decode.py::test_a_truncated_jpeg_says_so",
    "memery#10: decompression bombs": TESTS + "test_decode.py::test_decompression_bombs_are_refused_before_decoding",
    "datasets#6853: links are ignored": TESTS
    + "test_sources.py::test_links_are_followed_except_loops_and_dangling_ones",
    "datasets#5153: a flat folder": TESTS + "test_sources.py::test_a_flat_folder_is_refused",
    "datasets#4015: nested classes": TESTS
    + "test_sources.py::test_the_first_folder_level_is_the_class_and_items_are_sorted_by_id",
    "llama_index#10369: undecodable names": TESTS
    + "test_sources.py::test_unicode_and_undecodable_names_become_valid_ids",
    "TensorRT#4723: fp16 garbage": TESTS + "backbones/test_loading.py::test_float16_is_refused_for_dinov3",
    "transformers#41885: NaN": TESTS + "backbones/test_loading.py::test_nan_is_an_error_that_names_the_rows",
    "Guardrails#1751: another model of the same length": TESTS
    + "test_extract_refusals.py::test_another_recipe_is_refused",
    "darknet#8668: another resize at inference": "tests/app/"
    "test_predict.py::test_images_give_what_their_cached_vectors_gave",
    "pytorch#148886: an ONNX batch that is fixed": TESTS + "backbones/test_onnx.py::test_a_fixed_batch_is_filled_up",
    "ray#60983, Daft#3576: duplicates after a crash": TESTS
    + "test_table.py::test_repeated_ids_are_refused_not_dropped",
    "transparent pixels show their hidden colour": TESTS
    + "test_decode.py::test_hidden_colour_of_transparent_pixels_does_not_show",
    "an HTML page named .jpg": TESTS + "test_decode.py::test_what_is_no_image_is_refused_with_a_stable_reason",
    "CMYK": TESTS + "test_decode.py::test_cmyk_and_ycbcr",
    "the first frame of a GIF": TESTS + "test_decode.py::test_an_animation_gives_its_first_frame",
}


@pytest.mark.parametrize("bug", ELSEWHERE)
def test_the_test_of_each_bug_exists(bug: str) -> None:
    file, _, name = ELSEWHERE[bug].partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_clip_benchmark_125_no_content_is_on_both_sides(tmp_path: Path) -> None:
    make_images(tmp_path / "images", range(40))
    for n in range(0, 40, 4):  # every fourth image is a byte-identical copy of its neighbour
        paint(tmp_path / f"images/{n:03d}.png", n + 1)
    listing = list_images(tmp_path / "images", range(40), group=lambda n: f"g{n}")
    run(listing, tmp_path / "cache")
    table = read_table(tmp_path / "cache")
    split = make_split(table, SplitSpec())
    sides = {role: set(table.content[split.roles == role]) for role in ("train", "select", "calibrate", "test")}
    for one in sides:
        for other in sides.keys() - {one}:
            assert not sides[one] & sides[other], (one, other)


def test_mmpretrain_507_notebook_checkpoints_are_no_class(tmp_path: Path) -> None:
    make_images(tmp_path / ".ipynb_checkpoints", [0])
    make_images(tmp_path / "cat", [1])
    make_images(tmp_path / "cat/.ipynb_checkpoints", [2])
    listing = list_folder(tmp_path)
    assert listing.class_names == ("cat",)
    assert [item.id for item in listing.items] == ["cat/001.png"]
    assert any("2 hidden files or folders were skipped" in warning for warning in listing.warnings)


def test_pytorch_7238_a_broken_image_is_named(tmp_path: Path) -> None:
    make_images(tmp_path / "images", range(3), frozenset({1}))
    run(list_images(tmp_path / "images", range(3)), tmp_path / "cache")
    [row] = read_bad(tmp_path / "cache", 0)
    assert (row["id"], row["path"]) == ("001.png", str(tmp_path / "images/001.png"))


def test_kraken_299_a_bomb_is_quarantined_by_name(tmp_path: Path) -> None:
    make_images(tmp_path / "images", range(2))
    Image.new("1", (400, 400)).save(tmp_path / "images/001.png")
    run(list_images(tmp_path / "images", range(2)), tmp_path / "cache", pixel_limit=1000)
    [row] = read_bad(tmp_path / "cache", 0)
    assert row["id"] == "001.png"
    assert "160000 pixels, more than the limit of 1000" in row["reason"]


def test_fastai_2006_the_split_does_not_depend_on_the_order_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(40):
        paint(tmp_path / "images" / "ab"[n % 2] / f"{n:03d}.png", n)
    roles = []
    real = os.scandir

    class Shuffled:
        """Folder whose entries have another order on this machine."""

        def __init__(self, folder: os.PathLike[str]) -> None:
            with real(folder) as scan:
                self.entries = list(scan)
            random.Random(0).shuffle(self.entries)

        def __enter__(self) -> "Shuffled":
            return self

        def __exit__(self, *error: object) -> None:
            pass

        def __iter__(self):
            return iter(self.entries)

    for scan in (real, Shuffled):
        monkeypatch.setattr(os, "scandir", scan)
        listing = list_folder(tmp_path / "images")
        monkeypatch.undo()
        cache = tmp_path / scan.__name__
        run(listing, cache)
        table = read_table(cache)
        roles.append(dict(zip(table.ids.tolist(), make_split(table, SplitSpec()).roles.tolist(), strict=True)))
    assert roles[0] == roles[1]


def test_open_ontologies_74_a_swapped_model_of_the_same_length_is_refused(tmp_path: Path) -> None:
    make_images(tmp_path / "images", range(6))
    listing = list_images(tmp_path / "images", range(6))
    run(listing, tmp_path / "cache")
    before = files_of(tmp_path / "cache")
    other = RECIPE.model_copy(update={"weights_sha256": "f" * 64})
    for update in (False, True):
        with pytest.raises(CacheError, match="weights_sha256 of column cls was None and is 'ffff"):
            run(listing, tmp_path / "cache", Colours(recipes={"cls": other, "patch_mean": other}), update=update)
    assert files_of(tmp_path / "cache") == before


def test_fiftyone_brain_90_failures_are_never_zero_vectors(tmp_path: Path) -> None:
    make_images(tmp_path / "images", range(8), frozenset({1, 5}))
    run(list_images(tmp_path / "images", range(8)), tmp_path / "cache")
    table = read_table(tmp_path / "cache")
    assert "001.png" not in table.ids
    assert np.abs(table.columns["cls"].astype(float)).sum(axis=1).min() > 0
    manifest = read_json(tmp_path / "cache/manifest.json")
    assert (manifest["n_ok"], manifest["n_bad"], manifest["n_listed"]) == (6, 2, 8)


def test_dinov3_99_a_backbone_that_jitters_is_noticed_by_the_canary(tmp_path: Path) -> None:
    class Jittering(Colours):
        def embed(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
            noise = torch.randn(3, generator=torch.Generator().manual_seed(self.embedded))
            return {name: value + 40 * noise for name, value in super().embed(batch).items()}

    make_images(tmp_path / "images", range(6))
    listing = list_images(tmp_path / "images", range(6))
    run(listing, tmp_path / "cache", Jittering())
    with pytest.raises(CacheError, match="must reproduce the canary's stored vectors, but in column"):
        run(listing, tmp_path / "cache", Jittering(embedded=50))


def test_pillow_1108_a_file_that_cannot_be_decoded_never_gives_pixels(tmp_path: Path) -> None:
    Image.fromarray(np.arange(64 * 64 * 3, dtype=np.uint8).reshape(64, 64, 3)).save(tmp_path / "a.jpg")
    (tmp_path / "a.jpg").write_bytes((tmp_path / "a.jpg").read_bytes()[:-200])
    with pytest.raises(DecodeError, match="truncated"):
        decode_file(tmp_path / "a.jpg")
