"""Images that cannot be embedded are quarantined with a reason."""

import os
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from colour_images import RECIPE, Colours, make_folder, run
from PIL import Image

from frostbench.embedcache.backbones import NotFiniteError
from frostbench.embedcache.extraction.extract import extract
from frostbench.embedcache.items import Item, make_listing
from frostbench.embedcache.sources.folders import list_folder
from frostbench.embedcache.storage.store import finished_shards, read_bad
from frostbench.embedcache.table import read_table


@dataclass
class Picky(Colours):
    """Backbone that refuses images with these red values, or gives NaN for them if `refuse` is unset."""

    reds: tuple[int, ...] = ()
    refuse: bool = True

    def embed(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
        wrong = [
            row
            for row, image in enumerate(batch)
            if int(image[0, 0, 0]) in self.reds and len(set(image[0].flatten().tolist())) == 1
        ]
        vectors = super().embed(batch)
        if wrong and self.refuse:
            raise NotFiniteError("vectors must be finite.", wrong)
        vectors["cls"][wrong] = float("nan")
        return vectors


@pytest.mark.parametrize("refuse", [True, False])
def test_an_image_without_a_finite_vector_is_quarantined(tmp_path: Path, refuse: bool) -> None:
    listing = make_folder(tmp_path / "images", 12)  # in listing order: red 0, 2, …, 10, 1, 3, …, 11
    backbone = Picky(reds=(2, 4, 11), refuse=refuse)
    finished = run(listing, tmp_path / "cache", backbone, batch=3)[-1]
    assert (finished.n_ok, finished.n_bad) == (9, 3)
    table = read_table(tmp_path / "cache", verify=True)
    assert table.columns["cls"][:, 0].tolist() == [0, 6, 8, 10, 1, 3, 5, 7, 9]
    assert [int(Path(one).stem) for one in table.ids] == [0, 6, 8, 10, 1, 3, 5, 7, 9]
    rows = [row for i in range(3) for row in read_bad(tmp_path / "cache", i)]
    assert [row["id"] for row in rows] == ["a/002.png", "a/004.png", "b/011.png"]
    assert all(("NaN or infinity" if refuse else "reaches nan") in row["reason"] for row in rows)
    # Its bytes are unchanged, so it is not retried.
    assert run(listing, tmp_path / "cache", backbone, batch=3)[-1].n_worked == 0


def test_a_batch_without_any_storable_vector_is_an_error(tmp_path: Path) -> None:
    listing = make_folder(tmp_path / "images", 6)
    # 65504 / 250 = 262: the canary stays below, 2 * 255 * 255 does not.
    with pytest.raises(
        ValueError, match=r"no image of a batch of 4 .* 'a/000.png': its vector in column 'patch_mean' reaches 130050"
    ):
        run(listing, tmp_path / "large", Colours(scale=255.0))
    exact = RECIPE.model_copy(update={"autocast": "float32"})
    for recipe, advice in ((RECIPE, "choose autocast float32 or another pooling"), (exact, "choose another pooling")):
        backbone = Colours(scale=255.0, recipes={"cls": recipe, "patch_mean": recipe})
        with pytest.raises(ValueError, match=rf"Check that the weights belong to the model, and {advice}\.$"):
            run(listing, tmp_path / advice, backbone)
    with pytest.raises(ValueError, match=r"no image of a batch of 4 .* 'a/000.png': the backbone gives NaN"):
        run(listing, tmp_path / "nan", Picky(reds=(0, 1, 2, 3, 4, 5)))


def image_bytes(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def test_a_folder_of_awkward_files(tmp_path: Path) -> None:
    folder = tmp_path / "images" / "class é"
    folder.mkdir(parents=True)
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 30, 3), np.uint8))
    turned = Image.Exif()
    turned[0x0112] = 6
    palette = noise.convert("P")
    good = {
        "plain.jpg": image_bytes(noise, "JPEG"),
        "turned.jpg": image_bytes(noise, "JPEG", exif=turned),
        "UPPER.JPEG": image_bytes(noise, "JPEG"),
        "cmyk.jpg": image_bytes(noise.convert("CMYK"), "JPEG"),
        "grey.png": image_bytes(noise.convert("L"), "PNG"),
        "bilevel.png": image_bytes(noise.convert("1"), "PNG"),
        "sixteen.png": image_bytes(Image.fromarray(np.full((9, 9), 51400, np.uint16)), "PNG"),
        "alpha.png": image_bytes(Image.new("RGBA", (9, 9), (255, 0, 0, 0)), "PNG"),
        "palette.png": image_bytes(palette, "PNG", transparency=0),
        "moving.gif": image_bytes(palette, "GIF", save_all=True, append_images=[palette.rotate(90)]),
        "page.webp": image_bytes(noise, "WEBP"),
        "scan.tif": image_bytes(noise, "TIFF"),
        "png inside.jpg": image_bytes(noise, "PNG"),
        os.fsdecode(b"caf\xe9.png"): image_bytes(noise, "PNG"),
    }
    bad = {
        "empty.jpg": (b"", "the file is empty"),
        "page.jpg": (b"<!doctype html><html></html>", "is not an image"),
        "truncated.jpg": (image_bytes(noise, "JPEG")[:-300], "truncated"),
        "truncated.png": (image_bytes(noise, "PNG")[:-900], "cannot be decoded"),
        "float.tif": (image_bytes(Image.fromarray(np.ones((9, 9), np.float32)), "TIFF"), "floating-point"),
        "large.png": (image_bytes(Image.new("1", (400, 400)), "PNG"), "160000 pixels, more than the limit of 90000"),
        "sliver.png": (image_bytes(Image.new("1", (90000, 1)), "PNG"), None),
    }
    for name, data in good.items() | {(name, content[0]) for name, content in bad.items()}:
        (folder / name).write_bytes(data)
    (folder / "linked.png").symlink_to(folder / "plain.jpg")
    (folder / "dangling.png").symlink_to(folder / "nothing")
    (folder / ".hidden.png").write_bytes(b"")
    (folder / "notes.txt").write_text("notes")
    (tmp_path / "images" / "empty class").mkdir()
    del bad["sliver.png"]  # squashed here; refused by a centre crop, see backbones/test_preparation
    listing = list_folder(tmp_path / "images")
    *_, finished = extract(listing, Colours(), tmp_path / "cache", pixel_limit=90000)
    assert (finished.n_listed, finished.n_ok, finished.n_bad) == (22, 16, 6)
    reasons = {Path(row["id"]).name: row["reason"] for row in read_bad(tmp_path / "cache", 0)}
    assert reasons.keys() == bad.keys()
    for name, (_, reason) in bad.items():
        assert reason in reasons[name], name
    table = read_table(tmp_path / "cache", verify=True)
    assert table.class_names == ("class é", "empty class")
    colours = dict(zip((Path(one).name for one in table.ids), table.columns["cls"].tolist(), strict=True))
    assert colours["sixteen.png"] == [200, 200, 200]
    assert colours["alpha.png"] == [255, 255, 255]
    assert colours["linked.png"] == colours["plain.jpg"] == colours["UPPER.JPEG"]
    assert colours[r"caf\xe9.png"] == colours["png inside.jpg"]


def test_quarantine_rows_hold_id_path_and_reason(tmp_path: Path) -> None:
    gone = Item("x/gone.png", tmp_path / "gone.png", "x", "g")
    listing = make_listing([gone], ["x"], [], {"kind": "test"}, None)
    run(listing, tmp_path / "cache")
    row = {"id": "x/gone.png", "path": str(tmp_path / "gone.png"), "reason": "the file does not exist"}
    row |= {"sha256": None}
    assert read_bad(tmp_path / "cache", 0) == [row]
    assert len(finished_shards(tmp_path / "cache")) == 1
