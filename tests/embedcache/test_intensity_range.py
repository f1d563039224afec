"""Pixels of more than 8 bits: remarks, and intensity ranges in recipes."""

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from colour_images import RECIPE, Colours, run
from PIL import Image
from pydantic import ValidationError

from frostbench.embedcache.decode import DecodeError, decode_bytes, decode_image
from frostbench.embedcache.extraction.backbone_group import BackboneGroup
from frostbench.embedcache.extraction.events import Finished
from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.remarks import Remarks
from frostbench.embedcache.sources.source import list_source
from frostbench.embedcache.table import read_table

TWELVE_BITS = np.array([[0, 1, 8, 1000], [2047, 2048, 4094, 4095]], np.uint16)
EIGHT = [[0, 0, 0, 62], [127, 128, 255, 255]]
"""255 · v / 4095 rounded half up, by hand: 1000 gives 62.27, 2047 127.47, 2048 127.53, 4094 254.94."""
RANGE = (0.0, 4095.0)


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def grey(data: bytes, **options: object) -> list[list[int]]:
    return decode_bytes(data, **options)[:, :, 0].tolist()  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_a_stated_range_keeps_the_levels_of_12_bit_data(kind: str) -> None:
    data = encoded(Image.fromarray(TWELVE_BITS), kind)
    assert grey(data, intensity_range=RANGE) == EIGHT
    assert grey(data) == [[0, 0, 0, 4], [8, 8, 16, 16]]
    assert grey(data, intensity_range=(1000.0, 2048.0)) == [[0, 0, 0, 0], [255, 255, 255, 255]]


def test_12_bit_data_without_a_range_are_remarked_and_full_ones_are_not() -> None:
    narrow = decode_image(encoded(Image.fromarray(TWELVE_BITS)))[1]
    assert narrow == Remarks(grey=1, narrow=1, largest=4095)
    assert decode_image(encoded(Image.fromarray(TWELVE_BITS)), intensity_range=RANGE)[1] == Remarks(grey=1)
    assert decode_image(encoded(Image.fromarray(16 * TWELVE_BITS)))[1] == Remarks(grey=1)
    assert decode_image(encoded(Image.new("L", (2, 2), 7)))[1] == Remarks()
    both = (narrow + Remarks(grey=1)).sentences()
    assert both[0].startswith("1 of 2 images with 16-bit grey values uses a small part of the range")
    assert "If these are 12-bit values, embed with --intensity-range 0:4095." in both[0]
    assert "--intensity-range LOW:HIGH" in Remarks(grey=1, narrow=1, largest=40_000).sentences()[0]


def test_signed_wide_and_floating_values_are_read_by_a_stated_range() -> None:
    signed = encoded(Image.fromarray(np.array([[-1024, 0, 1023]], np.int32)), "TIFF")
    assert grey(signed, intensity_range=(-1024.0, 1023.0)) == [[0, 128, 255]]
    fractions = encoded(Image.fromarray(np.array([[0.0, 0.5, 2.0]], np.float32)), "TIFF")
    assert grey(fractions, intensity_range=(0.0, 1.0)) == [[0, 128, 255]]
    broken = encoded(Image.fromarray(np.array([[0.0, np.nan]], np.float32)), "TIFF")
    with pytest.raises(DecodeError, match="NaN or infinite"):
        decode_bytes(broken, intensity_range=(0.0, 1.0))


def test_8_bit_images_and_files_that_state_their_range_are_taken_by_their_own() -> None:
    plain = encoded(Image.fromarray(np.array([[0, 100, 255]], np.uint8)))
    assert grey(plain, intensity_range=RANGE) == [[0, 100, 255]]
    pgm = b"P5 2 1 4095\n" + np.array([1000, 4095], ">u2").tobytes()
    assert grey(pgm) == grey(pgm, intensity_range=RANGE) == [[62, 255]]
    assert decode_image(pgm)[1] == Remarks(grey=1)
    full = b"P5 2 1 65535\n" + np.array([1000, 4095], ">u2").tobytes()
    assert grey(full, intensity_range=RANGE) == [[62, 255]]


def deep_colour(values: np.ndarray) -> bytes:
    """Write a PNG of 16-bit colours [H, W, 3], which Pillow can read but not write."""
    import struct
    import zlib

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    height, width, _ = values.shape
    lines = b"".join(b"\0" + line.astype(">u2").tobytes() for line in values)
    head = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def test_colours_of_16_bits_are_remarked_where_narrow_and_refuse_a_range() -> None:
    dark = deep_colour(np.full((2, 2, 3), 4095, np.uint16))
    bright = deep_colour(np.array([[[0, 0, 0], [65535, 65535, 65535]]], np.uint16))
    assert decode_image(dark)[1] == Remarks(narrow_colour=1)
    assert decode_image(bright)[1] == Remarks()
    with pytest.raises(DecodeError, match="16-bit colours, to which no intensity range can be applied"):
        decode_bytes(dark, intensity_range=RANGE)


@pytest.mark.parametrize("kind", ["TIFF", "GIF", "PNG", "WEBP"])
def test_further_pages_and_frames_are_remarked_and_the_first_is_taken(kind: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "lime", "blue")]
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
    pixels, remarks = decode_image(data)
    assert pixels[0, 0].tolist() == pytest.approx([255, 0, 0], abs=3)
    assert remarks == Remarks(pages=1)
    assert decode_image(encoded(frames[0], kind))[1] == Remarks()
    assert remarks.sentences()[0].startswith("1 file holds several pages or frames, of which only the first is used.")


def test_the_second_picture_of_a_phone_photo_is_no_page() -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    data = encoded(frames[0], "MPO", save_all=True, append_images=frames[1:])
    assert decode_image(data)[1] == Remarks()


def windowed(intensity_range: tuple[float, float] | None) -> Colours:
    recipe = RECIPE.model_copy(update={"intensity_range": intensity_range})
    return Colours(recipes={"cls": recipe, "patch_mean": recipe})


def test_extraction_counts_remarks_and_decodes_by_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "images" / "a").mkdir(parents=True)
    for i in range(7):
        Image.fromarray(np.full((8, 8), 273 * i, np.uint16)).save(tmp_path / "images" / "a" / f"{i}.png")
    frames = [Image.new("L", (8, 8), value) for value in (1, 2)]
    frames[0].save(tmp_path / "images" / "a" / "9.tif", save_all=True, append_images=frames[1:])
    listing = list_source(tmp_path / "images")
    end = run(listing, tmp_path / "plain")[-1]
    assert isinstance(end, Finished)
    assert end.remarks == Remarks(grey=7, narrow=7, largest=1638, pages=1)
    again = run(listing, tmp_path / "plain")[-1]
    assert isinstance(again, Finished)
    assert again.remarks == Remarks()
    end = run(listing, tmp_path / "window", windowed(RANGE))[-1]
    assert isinstance(end, Finished)
    assert end.remarks == Remarks(grey=7, pages=1)
    assert read_table(tmp_path / "window").columns["cls"][:, 0].tolist() == [17 * i for i in range(7)] + [1]


def test_a_range_is_part_of_the_recipe_and_recipes_without_one_keep_their_hash() -> None:
    ours: Mapping[str, object] = {"provider": "external", "model": "m"}
    assert "intensity_range" not in Recipe(**ours).model_dump()  # type: ignore[arg-type]
    stated = Recipe(**ours, intensity_range=RANGE)  # type: ignore[arg-type]
    assert stated.hash != Recipe(**ours).hash  # type: ignore[arg-type]
    assert Recipe.model_validate_json(stated.model_dump_json()) == stated
    for wrong in ((5, 5), (9, 1), (0, float("inf"))):
        with pytest.raises(ValidationError):
            Recipe(**ours, intensity_range=wrong)  # type: ignore[arg-type]


def test_backbones_that_share_an_image_have_one_range() -> None:
    with pytest.raises(ValueError, match="intensity range for pixels of more than 8 bits"):
        BackboneGroup({"a": windowed(None), "b": replace(windowed(RANGE))})
