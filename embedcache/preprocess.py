"""From a decoded image to the square that a backbone sees, by the numbers of a recipe.

The three crops follow timm's evaluation transform pixel for pixel, but take every number from the recipe, so that a
cache and an exported head keep their meaning when a library changes its defaults.
"""

import math

import numpy as np
import torch
from PIL import Image

from frostbench.embedcache.decode import DecodeError
from frostbench.embedcache.recipe import Recipe

RESIZED_PIXEL_LIMIT = 2**26
"""A sliver of 1 x 100,000 pixels would grow to gigabytes when its short side is scaled up."""

_FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "hamming": Image.Resampling.HAMMING,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


def resize_length(size: int, crop_fraction: float) -> int:
    """The length to scale to before a crop of `size` pixels, rounded down as timm does.

    >>> resize_length(224, 0.875)
    256
    """
    return math.floor(size / crop_fraction)


def prepare_image(image: np.ndarray, recipe: Recipe) -> torch.Tensor:
    """Resize and crop an image by its recipe.

    Args:
        image: uint8 [H, W, 3].
        recipe: a resolved recipe.

    Returns:
        uint8 [3, S, S] in channels-last memory; S is the recipe's size.

    Raises:
        TypeError: the image is not uint8 [H, W, 3].
        ValueError: the recipe does not say how to resize.
        DecodeError: the image is so long and thin that it would not fit into memory.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise TypeError(
            f"an image must be uint8 [H, W, 3], however: {image.dtype} {list(image.shape)} came. "
            "Use frostbench.embedcache.decode."
        )
    if recipe.size is None or recipe.resize is None or recipe.mean is None or recipe.interpolation not in _FILTERS:
        raise ValueError(
            f"images are prepared by a resolved recipe, however: recipe {recipe.hash} of provider {recipe.provider!r} "
            "leaves the size or the resize open. Its vectors can be used, but no new image can be embedded by it."
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
    """Width and height after the resize, with the rounding of torchvision (center) and timm (border)."""
    if crop == "squash":
        return length, length
    if crop == "border":
        ratio = max(height / length, width / length)
        return round(width / ratio), round(height / ratio)
    if width <= height:
        return length, int(length * height / width)
    return int(length * width / height), length


def _centered(picture: Image.Image, size: int, fill: tuple[int, ...]) -> Image.Image:
    """Cut or pad to the square in the middle; an odd pixel of padding goes to the right and bottom."""
    left, top = (_offset(length, size) for length in picture.size)
    if min(picture.size) >= size:
        return picture.crop((left, top, left + size, top + size))
    square = Image.new("RGB", (size, size), fill)
    square.paste(picture, (-left, -top))
    return square


def _offset(length: int, size: int) -> int:
    """Where the square begins inside the picture, negative where the picture begins inside the square."""
    return round((length - size) / 2) if length >= size else -((size - length) // 2)
