"""Resizing and cropping of a decoded image to the square input of a backbone, as stated by a recipe.

The three crops match timm's evaluation transform pixel for pixel, but take every number from the recipe, so that caches
and exported heads stay valid when a library changes its defaults.
"""

import math

import numpy as np
import torch
from PIL import Image

from frostbench.embedcache.decode import DecodeError
from frostbench.embedcache.recipe import Recipe

RESIZED_PIXEL_LIMIT = 2**26
"""Maximum number of pixels after the resize; scaling the short side of 1 x 100,000 pixels would take gigabytes."""

_FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "hamming": Image.Resampling.HAMMING,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


def resize_length(size: int, crop_fraction: float) -> int:
    """Compute the length to resize to before a crop of `size` pixels, rounded down as in timm.

    >>> resize_length(224, 0.875)
    256
    """
    return math.floor(size / crop_fraction)


def prepare_image(image: np.ndarray, recipe: Recipe) -> torch.Tensor:
    """Resize and crop an image as its recipe states.

    Args:
        image: uint8 [H, W, 3].
        recipe: a resolved recipe.

    Returns:
        uint8 [3, S, S] in channels-last memory format; S is the recipe's size.

    Raises:
        TypeError: the image is not uint8 [H, W, 3].
        ValueError: the recipe does not state how to resize.
        DecodeError: the image is so long and thin that the resized image would exceed RESIZED_PIXEL_LIMIT.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise TypeError(
            f"an image must be uint8 [H, W, 3], got {image.dtype} {list(image.shape)}. "
            "Decode it with `frostbench.embedcache.decode.decode_file`."
        )
    if recipe.size is None or recipe.resize is None or recipe.mean is None or recipe.interpolation not in _FILTERS:
        raise ValueError(
            f"a recipe must state size, resize, mean and interpolation to prepare images, but recipe {recipe.hash} of "
            f"provider {recipe.provider!r} does not. Use its stored vectors; it cannot embed new images."
        )
    height, width = image.shape[:2]
    target = _resized(width, height, recipe.resize, recipe.crop)
    if target[0] * target[1] > RESIZED_PIXEL_LIMIT:
        raise DecodeError(
            f"is too long and thin: {width} x {height} pixels would be resized to {target[0]} x {target[1]}"
        )
    picture = Image.fromarray(image)
    if picture.size != target:
        picture = picture.resize(target, _FILTERS[recipe.interpolation])
    fill = tuple(round(255 * value) for value in recipe.mean) if recipe.crop == "border" else (0, 0, 0)
    square = _centered(picture, recipe.size, fill)
    return torch.from_numpy(np.array(square)).permute(2, 0, 1)


def _resized(width: int, height: int, length: int, crop: str) -> tuple[int, int]:
    """Compute width and height after the resize, rounded as in torchvision (center) and timm (border)."""
    if crop == "squash":
        return length, length
    if crop == "border":
        ratio = max(height / length, width / length)
        return round(width / ratio), round(height / ratio)
    if width <= height:
        return length, int(length * height / width)
    return int(length * width / height), length


def _centered(picture: Image.Image, size: int, fill: tuple[int, ...]) -> Image.Image:
    """Crop or pad to the central square; an odd pixel of padding goes to the right and bottom."""
    left, top = (_offset(length, size) for length in picture.size)
    if min(picture.size) >= size:
        return picture.crop((left, top, left + size, top + size))
    square = Image.new("RGB", (size, size), fill)
    square.paste(picture, (-left, -top))
    return square


def _offset(length: int, size: int) -> int:
    """Return the start of the square within the picture; negative if the square is larger."""
    return round((length - size) / 2) if length >= size else -((size - length) // 2)
