import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms

from frostbench.embedcache.decode import DecodeError, decode_bytes, decode_file, read_image_file


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def corner_image() -> Image.Image:
    """Make an image of three by two pixels that is red only in the upper left corner."""
    pixels = np.zeros((3, 2, 3), np.uint8)
    pixels[0, 0] = (255, 0, 0)
    return Image.fromarray(pixels)


@pytest.mark.parametrize(
    ("orientation", "shape", "corner"),
    [
        (1, (3, 2), (0, 0)),
        (2, (3, 2), (0, 1)),
        (3, (3, 2), (2, 1)),
        (4, (3, 2), (2, 0)),
        (5, (2, 3), (0, 0)),
        (6, (2, 3), (0, 2)),
        (7, (2, 3), (1, 2)),
        (8, (2, 3), (1, 0)),
    ],
)
@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
def test_the_exif_orientation_is_applied_once(
    orientation: int, shape: tuple[int, int], corner: tuple[int, int], kind: str
) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"lossless": True} if kind == "WEBP" else {}
    pixels = decode_bytes(encoded(corner_image(), kind, exif=exif, **options))
    assert pixels.shape == (*shape, 3)
    assert np.argwhere(pixels[:, :, 0] > 128).tolist() == [list(corner)]


def test_a_rotated_jpeg_is_turned() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    half = np.zeros((32, 16, 3), np.uint8)
    half[:16] = 255
    pixels = decode_bytes(encoded(Image.fromarray(half), "JPEG", exif=exif))
    assert pixels.shape == (16, 32, 3)
    assert pixels[:, :14].max() < 20
    assert pixels[:, 18:].min() > 235


def test_exif_rubbish_counts_as_absent() -> None:
    pixels = decode_bytes(encoded(corner_image(), "PNG", exif=b"Exif\x00\x00rubbish, not a TIFF header"))
    assert pixels.shape == (3, 2, 3)


SIXTEEN = np.array([[0, 128, 129, 257, 32768, 65535]], np.uint16)
EIGHT = [0, 0, 1, 1, 128, 255]
"""round(v / 257): 128/257 = 0.498, 129/257 = 0.502, 32768/257 = 127.502."""


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
def test_16_bit_grey_is_scaled_not_clipped(kind: str) -> None:
    pixels = decode_bytes(encoded(Image.fromarray(SIXTEEN), kind))
    assert pixels[0].tolist() == [[value] * 3 for value in EIGHT]


def big_endian_tiff(values: np.ndarray) -> bytes:
    """Write a one-row big-endian 16-bit grey TIFF, which Pillow opens in mode I;16B."""
    data = values.astype(">u2").tobytes()
    tags = [(256, 4, values.shape[1]), (257, 4, 1), (258, 3, 16), (259, 3, 1), (262, 3, 1), (273, 4, 8)]
    tags += [(277, 3, 1), (278, 4, 1), (279, 4, len(data))]
    entries = b"".join(
        struct.pack(">HHI", tag, kind, 1) + (struct.pack(">HH", value, 0) if kind == 3 else struct.pack(">I", value))
        for tag, kind, value in tags
    )
    header = struct.pack(">2sHI", b"MM", 42, 8 + len(data))
    return header + data + struct.pack(">H", len(tags)) + entries + struct.pack(">I", 0)


def test_big_endian_16_bit_grey() -> None:
    data = big_endian_tiff(SIXTEEN)
    assert Image.open(BytesIO(data)).mode == "I;16B"
    assert decode_bytes(data)[0].tolist() == [[value] * 3 for value in EIGHT]


def test_a_16_bit_ramp_keeps_all_256_levels() -> None:
    ramp = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    pixels = decode_bytes(encoded(Image.fromarray(ramp)))
    assert len(np.unique(pixels)) == 256
    assert abs(float(pixels.mean()) - 127.5) < 0.01


def test_32_bit_and_float_pixels_without_a_range_are_refused() -> None:
    with pytest.raises(DecodeError, match="32-bit pixels from 0 to 70000"):
        decode_bytes(encoded(Image.fromarray(np.array([[0, 70000]], np.int32)), "TIFF"))
    with pytest.raises(DecodeError, match="floating-point pixels"):
        decode_bytes(encoded(Image.fromarray(np.ones((2, 2), np.float32)), "TIFF"))


def rgba(*pixel: int) -> Image.Image:
    return Image.new("RGBA", (2, 2), pixel)


@pytest.mark.parametrize("background", [(255, 255, 255), (0, 0, 0), (10, 20, 30)])
def test_hidden_colour_of_transparent_pixels_does_not_show(background: tuple[int, int, int]) -> None:
    pixels = decode_bytes(encoded(rgba(255, 0, 0, 0)), background=background)
    assert pixels[0, 0].tolist() == list(background)
    assert decode_bytes(encoded(rgba(255, 0, 0, 255)), background=background)[0, 0].tolist() == [255, 0, 0]


def test_half_transparency_is_mixed() -> None:
    # alpha 51 is 1/5: 100/5 + 255 * 4/5 = 224, 255 * 4/5 = 204
    assert decode_bytes(encoded(rgba(100, 0, 255, 51)))[0, 0].tolist() == [224, 204, 255]


def test_grey_with_alpha_and_palettes_with_transparency() -> None:
    assert decode_bytes(encoded(Image.new("LA", (2, 2), (7, 0))))[0, 0].tolist() == [255, 255, 255]
    palette = Image.new("P", (2, 1))
    palette.putpalette([255, 0, 0, 0, 255, 0])
    palette.putpixel((1, 0), 1)
    for options in ({"transparency": 0}, {"transparency": b"\x00\xff"}):
        assert decode_bytes(encoded(palette, "PNG", **options))[0].tolist() == [[255, 255, 255], [0, 255, 0]]
    assert decode_bytes(encoded(palette, "GIF", transparency=0))[0].tolist() == [[255, 255, 255], [0, 255, 0]]
    assert decode_bytes(encoded(palette))[0].tolist() == [[255, 0, 0], [0, 255, 0]]


def test_a_colour_key_is_transparent() -> None:
    pixels = decode_bytes(encoded(corner_image(), "PNG", transparency=(0, 0, 0)), background=(1, 2, 3))
    assert pixels[0].tolist() == [[255, 0, 0], [1, 2, 3]]


def test_grey_and_bilevel() -> None:
    assert decode_bytes(encoded(Image.new("L", (2, 2), 77)))[0, 0].tolist() == [77, 77, 77]
    assert decode_bytes(encoded(Image.new("1", (2, 2), 1)))[0, 0].tolist() == [255, 255, 255]


def test_cmyk_and_ycbcr() -> None:
    # Pure cyan ink absorbs red.
    assert decode_bytes(encoded(Image.new("CMYK", (8, 8), (255, 0, 0, 0)), "TIFF"))[0, 0].tolist() == [0, 255, 255]
    red, green, blue = decode_bytes(encoded(Image.new("CMYK", (8, 8), (255, 0, 0, 0)), "JPEG"))[4, 4]
    assert red < 10 < 245 < min(green, blue)
    # (76, 85, 255) is red: Y = 0.299 * 255, Cb = 128 - 0.169 * 255, Cr = 128 + 0.5 * 255.
    red, green, blue = decode_bytes(encoded(Image.new("YCbCr", (8, 8), (76, 85, 255)), "JPEG"))[4, 4]
    assert max(green, blue) < 5 < 250 < red


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_an_animation_gives_its_first_frame(kind: str) -> None:
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    options = {"lossless": True} if kind == "WEBP" else {}
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:], **options)
    assert decode_bytes(data)[0, 0].tolist() == [255, 0, 0]


def test_icc_profiles_are_ignored() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
    plain, tagged = (encoded(corner_image(), "PNG", **o) for o in ({}, {"icc_profile": profile}))
    np.testing.assert_array_equal(decode_bytes(plain), decode_bytes(tagged))


def noise(size: int = 64) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (size, size, 3), np.uint8))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "GIF", "WEBP"])
@pytest.mark.parametrize("share", [0.9, 0.5, 0.1, 0.02])
def test_truncated_files_are_refused(kind: str, share: float) -> None:
    data = encoded(noise(), kind)
    with pytest.raises(DecodeError):
        decode_bytes(data[: int(len(data) * share)])


def test_a_truncated_jpeg_says_so() -> None:
    with pytest.raises(DecodeError, match="truncated"):
        decode_bytes(encoded(noise(), "JPEG")[:-500])


@pytest.mark.parametrize("data", [b"<html></html>", b"\x00", b"PK\x03\x04", b"%!PS-Adobe-3.0 EPSF-3.0\n", b"P9"])
def test_what_is_no_image_is_refused_with_a_stable_reason(data: bytes) -> None:
    with pytest.raises(DecodeError, match=r"^is not an image in a supported format$"):
        decode_bytes(data)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_files_decode_or_are_refused(seed: int) -> None:
    random = np.random.default_rng(seed)
    data = bytearray(encoded(noise(16), ["JPEG", "PNG", "TIFF", "GIF", "WEBP", "BMP", "PPM", "JPEG2000"][seed % 8]))
    for position in random.integers(0, min(len(data), 200), 4):
        data[position] = int(random.integers(0, 256))
    with suppress(DecodeError):
        assert decode_bytes(bytes(data), pixel_limit=10**6).ndim == 3


def bomb(width: int, height: int) -> bytes:
    """Write a PNG whose header states many pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [9_500, 20_000, 60_000])
def test_decompression_bombs_are_refused_before_decoding(side: int) -> None:
    # 9,500² exceeds Pillow's limit for a warning, which is an error in this suite; 20,000² exceeds that for an error.
    with pytest.raises(DecodeError, match=f"{side} x {side} = {side * side} pixels, more than the limit of 89478485"):
        decode_bytes(bomb(side, side))


def test_the_pixel_limit_is_an_option() -> None:
    data = encoded(corner_image())
    assert decode_bytes(data, pixel_limit=6).shape == (3, 2, 3)
    with pytest.raises(DecodeError, match="more than the limit of 5"):
        decode_bytes(data, pixel_limit=5)


def test_files_and_their_reasons(tmp_path: Path) -> None:
    (tmp_path / "good.png").write_bytes(encoded(corner_image()))
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "folder.png").mkdir()
    assert decode_file(tmp_path / "good.png").shape == (3, 2, 3)
    for name, reason in [
        ("empty.png", "the file is empty"),
        ("gone.png", "the file does not exist"),
        ("folder.png", "is not a regular file"),
    ]:
        with pytest.raises(DecodeError, match=reason):
            read_image_file(tmp_path / name)


def test_many_threads_agree() -> None:
    datas = [encoded(noise(48), kind) for kind in ("JPEG", "PNG", "WEBP", "TIFF")] * 8
    with ThreadPoolExecutor(8) as pool:
        for together, alone in zip(pool.map(decode_bytes, datas), map(decode_bytes, datas), strict=True):
            np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC"),
        (b"\xff\x0a\xfa\x1f", "JPEG XL"),
        (b"8BPS\0\1", "Photoshop's PSD"),
        (b"%PDF-1.7", "PDF"),
        (b"\0" * 128 + b"DICM", "DICOM"),
    ],
)
def test_formats_that_are_often_met_and_not_read_are_named(data: bytes, name: str) -> None:
    with pytest.raises(DecodeError, match=f"^is {name}, an unsupported format; convert the file to PNG, JPEG or TIFF$"):
        decode_bytes(data + b"\0" * 64)
