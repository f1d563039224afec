"""Small pictures of images: made from the files, kept in the cache, made again where they cannot be kept."""

import hashlib
import sqlite3
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from frostbench.embedcache.decode import DecodeError
from frostbench.embedcache.items import Item
from frostbench.embedcache.thumbnails import NAME, make_thumbnail, thumbnail


@pytest.fixture
def image(tmp_path):
    """A 640 × 160 photo, its item and its SHA-256."""
    path = tmp_path / "wide.png"
    pixels = np.zeros((160, 640, 3), dtype=np.uint8)
    pixels[:, :320] = (200, 30, 30)
    pixels[:, 320:] = (30, 30, 200)
    Image.fromarray(pixels).save(path)
    return Item("wide.png", path, "red"), hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def cache(tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir()
    return folder


def opened(data):
    return Image.open(BytesIO(data))


@pytest.mark.parametrize(("size", "shape"), [(96, (96, 24)), (320, (320, 80))])
def test_the_longest_side_is_the_size(cache, image, size, shape):
    picture = opened(thumbnail(cache, *image, size))
    assert (picture.format, picture.size) == ("WEBP", shape)
    left, right = picture.convert("RGB").getpixel((2, 2)), picture.convert("RGB").getpixel((shape[0] - 3, 2))
    assert left[0] > 150 > left[2]
    assert right[2] > 150 > right[0]


def test_small_images_are_not_enlarged(cache, tmp_path):
    Image.new("RGB", (10, 20)).save(tmp_path / "small.png")
    assert opened(make_thumbnail((tmp_path / "small.png").read_bytes(), 96)).size == (10, 20)


def test_a_picture_is_kept_and_needs_the_file_no_more(cache, image):
    made = thumbnail(cache, *image, 96)
    image[0].path.unlink()
    assert thumbnail(cache, *image, 96) == made
    with pytest.raises(DecodeError, match="the file does not exist"):
        thumbnail(cache, *image, 320)


def test_a_changed_file_has_no_picture(cache, image):
    Image.new("RGB", (8, 8)).save(image[0].path)
    with pytest.raises(DecodeError, match="has changed since it was embedded"):
        thumbnail(cache, *image, 96)
    assert not (cache / NAME).exists()


def test_a_damaged_file_of_pictures_is_begun_anew(cache, image):
    (cache / NAME).write_bytes(b"this is not a database" * 100)
    made = thumbnail(cache, *image, 96)
    with sqlite3.connect(cache / NAME) as kept:
        assert kept.execute("SELECT sha256, size, webp FROM thumbnails").fetchall() == [(image[1], 96, made)]


def test_a_damaged_file_that_cannot_be_replaced_stays(cache, image, monkeypatch):
    (cache / NAME).write_bytes(b"this is not a database" * 100)

    def refuse(*_, **__):
        raise PermissionError("read-only")

    monkeypatch.setattr("pathlib.Path.unlink", refuse)
    assert opened(thumbnail(cache, *image, 96)).size == (96, 24)


def test_kept_values_that_are_no_pictures_are_made_again(cache, image):
    made = thumbnail(cache, *image, 96)
    with sqlite3.connect(cache / NAME) as kept:
        kept.execute("UPDATE thumbnails SET webp = 'text'")
    assert thumbnail(cache, *image, 96) == made


def test_where_nothing_can_be_kept_pictures_are_made_each_time(cache, image):
    # A folder in the place of the file gives SQLite's error of a folder that cannot be written, also for root.
    (cache / NAME).mkdir()
    assert opened(thumbnail(cache, *image, 96)).size == (96, 24)
    assert list((cache / NAME).iterdir()) == []


def test_a_link_is_neither_read_nor_followed(cache, image, tmp_path):
    thumbnail(cache, *image, 96)
    (cache / NAME).rename(tmp_path / "elsewhere")
    (cache / NAME).symlink_to(tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere").read_bytes()
    image[0].path.write_bytes(b"changed")
    with pytest.raises(DecodeError, match="has changed"):
        thumbnail(cache, *image, 96)
    assert (tmp_path / "elsewhere").read_bytes() == before


def test_other_sizes_are_refused(cache, image):
    with pytest.raises(ValueError, match=r"in the sizes \(96, 320\), got 4000. Choose one"):
        thumbnail(cache, *image, 4000)
