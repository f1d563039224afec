"""The one decode path: the bytes of an image file to uint8 RGB, the same everywhere, or a reason why not.

The rules, which are part of a recipe as `decoder="pillow"`:

- The EXIF orientation is applied. EXIF data that cannot be parsed count as absent.
- 16-bit grey (I;16, I;16B, I;16L, and I within 0..65535) is scaled by 1/257 and rounded. Pillow itself reads 16-bit
  colour as the high byte, which differs by one level at most. Other 32-bit values and floating point are refused, since
  their range is not stated in the file.
- Where a recipe states an intensity range (low, high), grey values of more than 8 bits are clipped to it, low becomes 0
  and high 255, rounded; so are 32-bit values and floating point. A PGM file that states another largest value than
  65535 is scaled by that. 8-bit images are taken as they are, and 16-bit colour is refused, since Pillow cannot read
  all its bits.
- Transparency (alpha, palette, colour key) is composited on a stated background.
- CMYK, YCbCr, L, P and 1 are converted by Pillow. ICC profiles are ignored: pixels are taken as they are stored.
- Animations and multi-page files give their first frame, which is remarked; that of an MPO is the photo, and its others
  (depth, previews) are not remarked.
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

from frostbench.embedcache.remarks import Remarks

PIXEL_LIMIT = 89_478_485
"""Pillow's own limit: as RGB these pixels take a quarter of a GiB."""

# Only plain raster formats: others run programs (EPS calls Ghostscript) or hold no pixels.
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "PPM", "JPEG2000", "AVIF")
_SIXTEEN_BITS = ("I;16", "I;16B", "I;16L", "I;16N", "I")
_UNREAD = (
    ("HEIC", 4, (b"ftypheic", b"ftypheix", b"ftypheim", b"ftypheis", b"ftyphevc", b"ftypmif1", b"ftypmsf1")),
    ("JPEG XL", 0, (b"\xff\x0a", b"\0\0\0\x0cJXL ")),
    ("Photoshop's PSD", 0, (b"8BPS",)),
    ("PDF", 0, (b"%PDF",)),
    ("DICOM", 128, (b"DICM",)),
)
"""Formats that are often met, some under a JPEG file's name: where and how they begin."""
FEW_LEVELS = 64
"""Of 256 grey levels; images of 16 bits that keep fewer are remarked."""
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
        data: the whole file.
        background: RGB colour on which transparent pixels are composited.
        pixel_limit: largest width × height that is decoded; checked before the pixels are.
        intensity_range: grey values of more than 8 bits that become 0 and 255; None takes all 16 bits.

    Returns:
        uint8 [H, W, 3], RGB, and what should be told of the image.

    Raises:
        DecodeError: not an image, truncated, too large, or of a kind whose numbers have no stated range.
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
    known = next((name for name, place, begins in _UNREAD if data[place:].startswith(begins)), None)
    if known is not None:
        raise DecodeError(f"is {known}, a format that is not read here; convert it")
    raise DecodeError("is not an image in a format that is read here")


def _check_size(image: ImageFile.ImageFile, pixel_limit: int) -> None:
    width, height = image.size
    if width * height > pixel_limit:
        raise DecodeError(f"has {width} x {height} = {width * height} pixels, more than the limit of {pixel_limit}")


def _has_pages(image: ImageFile.ImageFile) -> bool:
    return image.format != "MPO" and bool(getattr(image, "is_animated", False))


def _has_deep_colour(image: ImageFile.ImageFile) -> bool:
    """Whether pixels have several channels of 16 bits, of which Pillow reads the high byte."""
    return image.mode not in (*_SIXTEEN_BITS, "F") and any(";16" in str(tile[3]) for tile in image.tile)


def _states_range(image: ImageFile.ImageFile) -> bool:
    """Whether the file states the largest value, and Pillow scales by it: PNM files other than of all 16 bits."""
    return image.format == "PPM" and any(tile[0] != "raw" for tile in image.tile)


def _to_rgb(
    image: Image.Image, background: tuple[int, int, int], window: Range | None, is_deep: bool
) -> tuple[Image.Image, Remarks]:
    if image.mode in _SIXTEEN_BITS or (image.mode == "F" and window is not None):
        values = np.asarray(image)
        grey, remarks = _scale_16_bits(values) if window is None else (_scale(values, window), Remarks(grey=1))
        return Image.fromarray(grey).convert("RGB"), remarks
    if image.mode == "F":
        raise DecodeError("has floating-point pixels, whose range is not stated; state it, or convert it to 16 bits")
    if is_deep and window is not None:
        raise DecodeError("has 16-bit colours, to which no intensity range can be applied; convert it to 8 bits")
    rgb = image.convert("RGB") if not image.has_transparency_data else _composited(image, background)
    low, high = _extremes(rgb) if is_deep else (0, 255)
    return rgb, Remarks(narrow_colour=int(high - low < FEW_LEVELS))


def _composited(image: Image.Image, background: tuple[int, int, int]) -> Image.Image:
    paper = Image.new("RGBA", image.size, (*background, 255))
    return Image.alpha_composite(paper, image.convert("RGBA")).convert("RGB")


def _extremes(rgb: Image.Image) -> tuple[int, int]:
    found = np.asarray(rgb)
    return int(found.min()), int(found.max())


def _scale_16_bits(values: np.ndarray) -> tuple[np.ndarray, Remarks]:
    """0..65535 to 0..255 by 1/257, rounded half up."""
    wide = values.astype(np.int64)
    low, high = int(wide.min()), int(wide.max())
    if low < 0 or high > 65535:
        raise DecodeError(
            f"has 32-bit pixels from {low} to {high}, whose range is not stated; state it, or convert it to 16 bits"
        )
    is_narrow = high - low < 257 * FEW_LEVELS
    remarks = Remarks(grey=1, narrow=int(is_narrow), largest=high if is_narrow else 0)
    return ((wide + 128) // 257).astype(np.uint8), remarks


def _scale(values: np.ndarray, window: Range) -> np.ndarray:
    """The low end to 0 and the high end to 255, rounded half up; what lies outside is clipped."""
    low, high = window
    wide = values.astype(np.float64)
    if not np.isfinite(wide).all():
        raise DecodeError("has pixels that are NaN or infinity; replace them")
    return np.floor((np.clip(wide, low, high) - low) * (255 / (high - low)) + 0.5).astype(np.uint8)


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(ExifTags.Base.Orientation, 1))
    except (SyntaxError, ValueError, TypeError, KeyError, IndexError, OSError, struct.error):
        return 1


def _reason(error: Exception) -> str:
    """The error in words, without memory addresses, so that equal runs give equal files."""
    said = re.sub(r" at 0x[0-9a-fA-F]+", "", str(error))
    return f"cannot be decoded: {said}" if said else f"cannot be decoded: {type(error).__name__}"
