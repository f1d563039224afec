"""Decoding of image files to uint8 RGB, identical on every machine; DecodeError states why a file cannot be decoded.

The recipe field `decoder="pillow"` stands for these rules:

- The EXIF orientation is applied. EXIF data that cannot be parsed are ignored.
- 16-bit grey (modes I;16…, and I within 0..65535) is scaled by 1/257 and rounded. Of 16-bit colour Pillow itself reads
  the high byte only, which differs by at most one level. Other 32-bit and floating-point values are refused, because
  the file does not state their range.
- If the recipe states an intensity range (low, high), grey values of more than 8 bits, including 32-bit and
  floating-point values, are clipped to it and scaled so that low becomes 0 and high becomes 255, rounded. A PGM file,
  unless binary with maximum 65535, is scaled by its stated maximum instead. 8-bit images are left unchanged, and
  16-bit colour is refused because Pillow cannot read all its bits.
- Transparent pixels (alpha, palette, colour key) are composited on the recipe's background colour.
- The modes CMYK, YCbCr, L, P and 1 are converted by Pillow. ICC profiles are ignored: pixel values are used as stored.
- Of animations and multi-page files only the first frame is used, with a remark. In an MPO file it is the photo; the
  other frames (depth, previews) cause no remark.
- Truncated files are refused, never filled up with grey.

Nothing here changes Pillow's globals or the warning filters, so decoding is thread-safe.
"""

import re
import stat
import struct
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, ImageFile

from frostbench.embedcache.remarks import Remarks

PIXEL_LIMIT = 89_478_485
"""Pillow's own limit on the number of pixels, 256 MiB as RGB."""

# Plain raster formats only: others run programs (EPS calls Ghostscript) or hold no pixels.
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "PPM", "JPEG2000", "AVIF")
_SIXTEEN_BITS = ("I;16", "I;16B", "I;16L", "I;16N", "I")
_UNREAD = (
    ("HEIC", 4, (b"ftypheic", b"ftypheix", b"ftypheim", b"ftypheis", b"ftyphevc", b"ftypmif1", b"ftypmsf1")),
    ("JPEG XL", 0, (b"\xff\x0a", b"\0\0\0\x0cJXL ")),
    ("Photoshop's PSD", 0, (b"8BPS",)),
    ("PDF", 0, (b"%PDF",)),
    ("DICOM", 128, (b"DICM",)),
)
"""Common unsupported formats, some of which are often named .jpg: name, offset and first bytes."""
_STATE_RANGE = "embed with --intensity-range LOW:HIGH, or convert the image to 16 bits"
FEW_LEVELS = 64
"""16-bit images that keep fewer of the 256 levels than this cause a remark."""
Range = tuple[float, float]
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class DecodeError(ValueError):
    """An image that cannot be embedded; the message is the reason recorded in the quarantine."""


class ElsewhereError(DecodeError):
    """An image that is tried again in the next run, because its file was replaced or another file is at fault."""


def read_image_file(path: Path) -> bytes:
    """Return the bytes of an image file.

    Raises:
        DecodeError: the file does not exist, is not a regular file, cannot be read, or is empty.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise DecodeError("is not a regular file")
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise DecodeError("the file does not exist") from error
    except OSError as error:
        raise DecodeError(f"the file cannot be read: {error.strerror}") from error
    if not data:
        raise DecodeError("the file is empty")
    return data


def decode_file(
    path: Path,
    *,
    background: tuple[int, int, int] = (255, 255, 255),
    pixel_limit: int = PIXEL_LIMIT,
    intensity_range: Range | None = None,
) -> np.ndarray:
    """Decode an image file to uint8 [H, W, 3]; see `decode_image`."""
    data = read_image_file(path)
    return decode_bytes(data, background=background, pixel_limit=pixel_limit, intensity_range=intensity_range)


def decode_bytes(
    data: bytes,
    *,
    background: tuple[int, int, int] = (255, 255, 255),
    pixel_limit: int = PIXEL_LIMIT,
    intensity_range: Range | None = None,
) -> np.ndarray:
    """Decode the content of an image file to uint8 [H, W, 3]; see `decode_image`."""
    return decode_image(data, background=background, pixel_limit=pixel_limit, intensity_range=intensity_range)[0]


def decode_image(
    data: bytes,
    *,
    background: tuple[int, int, int] = (255, 255, 255),
    pixel_limit: int = PIXEL_LIMIT,
    intensity_range: Range | None = None,
) -> tuple[np.ndarray, Remarks]:
    """Decode the content of an image file under the rules of this module.

    Args:
        data: full content of the file.
        background: RGB colour on which transparent pixels are composited.
        pixel_limit: largest width × height that is decoded; checked before the pixels are read.
        intensity_range: grey values that become 0 and 255 in images of more than 8 bits; None uses all 16 bits.

    Returns:
        RGB pixels uint8 [H, W, 3], and remarks about the image.

    Raises:
        DecodeError: the content is not an image, is truncated or too large, or has values that the rules refuse.
    """
    try:
        with _open(data) as image:
            _check_size(image, pixel_limit)
            is_deep, pages = _has_deep_colour(image), _has_pages(image)
            window = None if _states_range(image) else intensity_range
            image.load()
            rgb, remarks = _to_rgb(image, background, window, is_deep)
            turn = _TURNS.get(_orientation(image))
        return np.array(rgb if turn is None else rgb.transpose(turn)), remarks + Remarks(pages=int(pages))
    except (DecodeError, MemoryError):
        raise
    # Pillow's parsers raise almost any exception on a damaged file: OSError, SyntaxError, struct.error, KeyError …
    except Exception as error:
        raise DecodeError(_reason(error)) from error


def _open(data: bytes) -> ImageFile.ImageFile:
    """Open an image without the size check of `Image.open`, which warns or raises before the caller sees the size."""
    Image.init()
    for name in _FORMATS:
        factory, accept = Image.OPEN.get(name, (None, None))
        accepted = factory is not None and (accept is None or accept(data[:16]))
        # `accept` returns a sentence if this build of Pillow lacks the format.
        if factory is None or not accepted or isinstance(accepted, str):
            continue
        try:
            return factory(BytesIO(data), "")
        except (SyntaxError, IndexError, TypeError, struct.error):
            continue
    known = next((name for name, offset, magic in _UNREAD if data[offset:].startswith(magic)), None)
    if known is not None:
        raise DecodeError(f"is {known}, an unsupported format; convert the file to PNG, JPEG or TIFF")
    raise DecodeError("is not an image in a supported format")


def _check_size(image: ImageFile.ImageFile, pixel_limit: int) -> None:
    width, height = image.size
    if width * height > pixel_limit:
        raise DecodeError(f"has {width} x {height} = {width * height} pixels, more than the limit of {pixel_limit}")


def _has_pages(image: ImageFile.ImageFile) -> bool:
    return image.format != "MPO" and bool(getattr(image, "is_animated", False))


def _has_deep_colour(image: ImageFile.ImageFile) -> bool:
    """Return whether the image has several channels of 16 bits, of which Pillow reads the high byte only."""
    return image.mode not in (*_SIXTEEN_BITS, "F") and any(";16" in str(tile[3]) for tile in image.tile)


def _states_range(image: ImageFile.ImageFile) -> bool:
    """Return whether Pillow scales by a maximum that the file states: PNM files, except binary ones of 255 or 65535."""
    return image.format == "PPM" and any(tile[0] != "raw" for tile in image.tile)


def _to_rgb(
    image: Image.Image, background: tuple[int, int, int], window: Range | None, is_deep: bool
) -> tuple[Image.Image, Remarks]:
    if image.mode in _SIXTEEN_BITS or (image.mode == "F" and window is not None):
        values = np.asarray(image)
        grey, remarks = _scale_16_bits(values) if window is None else (_scale(values, window), Remarks(grey=1))
        return Image.fromarray(grey).convert("RGB"), remarks
    if image.mode == "F":
        raise DecodeError(f"has floating-point pixels, whose range is not stated; {_STATE_RANGE}")
    if is_deep and window is not None:
        raise DecodeError("has 16-bit colours, to which no intensity range can be applied; convert the image to 8 bits")
    rgb = image.convert("RGB") if not image.has_transparency_data else _composited(image, background)
    low, high = _extremes(rgb) if is_deep else (0, 255)
    return rgb, Remarks(narrow_colour=int(high - low < FEW_LEVELS))


def _composited(image: Image.Image, background: tuple[int, int, int]) -> Image.Image:
    paper = Image.new("RGBA", image.size, (*background, 255))
    return Image.alpha_composite(paper, image.convert("RGBA")).convert("RGB")


def _extremes(rgb: Image.Image) -> tuple[int, int]:
    pixels = np.asarray(rgb)
    return int(pixels.min()), int(pixels.max())


def _scale_16_bits(values: np.ndarray) -> tuple[np.ndarray, Remarks]:
    """Scale 0..65535 to 0..255 by 1/257, rounded half up."""
    wide = values.astype(np.int64)
    low, high = int(wide.min()), int(wide.max())
    if low < 0 or high > 65535:
        raise DecodeError(f"has 32-bit pixels from {low} to {high}, whose range is not stated; {_STATE_RANGE}")
    is_narrow = high - low < 257 * FEW_LEVELS
    remarks = Remarks(grey=1, narrow=int(is_narrow), largest=high if is_narrow else 0)
    return ((wide + 128) // 257).astype(np.uint8), remarks


def _scale(values: np.ndarray, window: Range) -> np.ndarray:
    """Clip to the range and scale it to 0..255, rounded half up."""
    low, high = window
    wide = values.astype(np.float64)
    if not np.isfinite(wide).all():
        raise DecodeError("has pixels that are NaN or infinite; replace them")
    return np.floor((np.clip(wide, low, high) - low) * (255 / (high - low)) + 0.5).astype(np.uint8)


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(ExifTags.Base.Orientation, 1))
    except (SyntaxError, ValueError, TypeError, KeyError, IndexError, OSError, struct.error):
        return 1


def _reason(error: Exception) -> str:
    """Return the error text without memory addresses, so that equal runs write equal files."""
    message = re.sub(r" at 0x[0-9a-fA-F]+", "", str(error))
    return f"cannot be decoded: {message or type(error).__name__}"
