"""The one decode path: the bytes of an image file to uint8 RGB, the same everywhere, or a reason why not.

The rules, which are part of a recipe as `decoder="pillow"`:

- The EXIF orientation is applied. EXIF data that cannot be parsed count as absent.
- 16-bit grey (I;16, I;16B, I;16L, and I within 0..65535) is scaled by 1/257 and rounded. Pillow itself reads 16-bit
  colour as the high byte, which differs by one level at most. Other 32-bit values and floating point are refused, since
  their range is not stated in the file.
- Transparency (alpha, palette, colour key) is composited on a stated background.
- CMYK, YCbCr, L, P and 1 are converted by Pillow. ICC profiles are ignored: pixels are taken as they are stored.
- Animations and multi-page files give their first frame.
- Truncated files are refused, never filled up with grey.

Nothing here changes Pillow's globals or the warning filters, so it may run in many threads.
"""

import re
import stat
import struct
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, ImageFile

PIXEL_LIMIT = 89_478_485
"""Pillow's own limit: as RGB these pixels take a quarter of a GiB."""

# Only plain raster formats: others run programs (EPS calls Ghostscript) or hold no pixels.
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "PPM", "JPEG2000", "AVIF")
_SIXTEEN_BITS = ("I;16", "I;16B", "I;16L", "I;16N", "I")
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
    """An image that cannot be embedded; the message is the reason that stands in the quarantine."""


class ElsewhereError(DecodeError):
    """An image that cannot be embedded because of another file than its own, and may be once that is mended."""


def read_image_file(path: Path) -> bytes:
    """The bytes of an image file.

    Raises:
        DecodeError: there is no such file, it is not a regular file, cannot be read or is empty.
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
    path: Path, *, background: tuple[int, int, int] = (255, 255, 255), pixel_limit: int = PIXEL_LIMIT
) -> np.ndarray:
    """Decode an image file to uint8 [H, W, 3]; see `decode_bytes`."""
    return decode_bytes(read_image_file(path), background=background, pixel_limit=pixel_limit)


def decode_bytes(
    data: bytes, *, background: tuple[int, int, int] = (255, 255, 255), pixel_limit: int = PIXEL_LIMIT
) -> np.ndarray:
    """Decode the content of an image file under the rules of this module.

    Args:
        data: the whole file.
        background: RGB colour on which transparent pixels are composited.
        pixel_limit: largest width × height that is decoded; checked before the pixels are.

    Returns:
        uint8 [H, W, 3], RGB.

    Raises:
        DecodeError: not an image, truncated, too large, or of a kind whose numbers have no stated range.
    """
    try:
        with _open(data) as image:
            _check_size(image, pixel_limit)
            image.load()
            rgb = _to_rgb(image, background)
            turn = _TURNS.get(_orientation(image))
        return np.array(rgb if turn is None else rgb.transpose(turn))
    except (DecodeError, MemoryError):
        raise
    # A damaged file makes Pillow's parsers raise nearly anything: OSError, SyntaxError, struct.error, KeyError …
    except Exception as error:
        raise DecodeError(_reason(error)) from error


def _open(data: bytes) -> ImageFile.ImageFile:
    """Like `Image.open`, which warns of a large image or raises before the size can be asked for."""
    Image.init()
    for name in _FORMATS:
        factory, accept = Image.OPEN.get(name, (None, None))
        accepted = factory is not None and (accept is None or accept(data[:16]))
        # The answer is a sentence where this build of Pillow lacks the format.
        if factory is None or not accepted or isinstance(accepted, str):
            continue
        try:
            return factory(BytesIO(data), "")
        except (SyntaxError, IndexError, TypeError, struct.error):
            continue
    raise DecodeError("is not an image in a format that is read here")


def _check_size(image: ImageFile.ImageFile, pixel_limit: int) -> None:
    width, height = image.size
    if width * height > pixel_limit:
        raise DecodeError(f"has {width} x {height} = {width * height} pixels, more than the limit of {pixel_limit}")


def _to_rgb(image: Image.Image, background: tuple[int, int, int]) -> Image.Image:
    if image.mode in _SIXTEEN_BITS:
        return Image.fromarray(_scale_16_bits(np.asarray(image))).convert("RGB")
    if image.mode == "F":
        raise DecodeError("has floating-point pixels, whose range is not stated; convert it to 8 or 16 bits")
    if not image.has_transparency_data:
        return image.convert("RGB")
    paper = Image.new("RGBA", image.size, (*background, 255))
    return Image.alpha_composite(paper, image.convert("RGBA")).convert("RGB")


def _scale_16_bits(values: np.ndarray) -> np.ndarray:
    """0..65535 to 0..255 by 1/257, rounded half up."""
    wide = values.astype(np.int64)
    low, high = int(wide.min()), int(wide.max())
    if low < 0 or high > 65535:
        raise DecodeError(f"has 32-bit pixels from {low} to {high}, whose range is not stated; convert it to 16 bits")
    return ((wide + 128) // 257).astype(np.uint8)


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(ExifTags.Base.Orientation, 1))
    except (SyntaxError, ValueError, TypeError, KeyError, IndexError, OSError, struct.error):
        return 1


def _reason(error: Exception) -> str:
    """The error in words, without memory addresses, so that equal runs give equal files."""
    said = re.sub(r" at 0x[0-9a-fA-F]+", "", str(error))
    return f"cannot be decoded: {said}" if said else f"cannot be decoded: {type(error).__name__}"
