"""Preparation of images for a model: the provider's configuration and the user's overrides."""

import math
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field

from frostbench.embedcache.config import SETTINGS
from frostbench.embedcache.preprocess import resize_length
from frostbench.embedcache.recipe import Channels, Crop, IntensityRange, Interpolation, Recipe

ChannelList = Annotated[Channels, Field(strict=False)]


class Preparation(BaseModel):
    """Overrides of resize, crop and normalisation; a field left out keeps the provider's value.

    Raises:
        pydantic.ValidationError: a field is unknown or out of bounds.
    """

    model_config = SETTINGS

    size: int | None = Field(default=None, ge=32, le=8192)
    """Side in pixels of the model's square input."""
    crop: Crop | None = None
    """How an image becomes a square: center crops, squash ignores the aspect ratio, border pads."""
    crop_fraction: float | None = Field(default=None, gt=0, le=2)
    """Ratio of the square's side to the length that the image is resized to, floor(size / crop_fraction)."""
    interpolation: Interpolation | None = None
    """Resampling filter of the resize."""
    mean: ChannelList | None = None
    """Value subtracted from each RGB channel after scaling pixels to 0..1."""
    std: ChannelList | None = None
    """Value by which each RGB channel is divided after the mean was subtracted."""
    intensity_range: IntensityRange | None = None
    """Grey values of images of more than 8 bits that become 0 and 255; None uses all 16 bits."""

    def over(self, config: dict[str, Any]) -> dict[str, Any]:
        """Return a provider's configuration with these overrides.

        >>> Preparation(crop="squash").over({"crop_mode": "center", "crop_pct": 0.9})
        {'crop_mode': 'squash', 'crop_pct': 0.9}
        """
        overrides = {
            "crop_mode": self.crop,
            "crop_pct": self.crop_fraction,
            "interpolation": self.interpolation,
            "mean": self.mean,
            "std": self.std,
        }
        return config | {name: value for name, value in overrides.items() if value is not None}

    @property
    def is_complete(self) -> bool:
        """Whether every required field is set."""
        return None not in (self.size, self.crop, self.crop_fraction, self.interpolation, self.mean, self.std)

    def config(self) -> dict[str, Any]:
        """Return a complete preparation in the form of a provider's configuration."""
        return self.over({"input_size": (3, self.size, self.size)})


def of_recipe(recipe: Recipe) -> Preparation:
    """Return the preparation stated in a recipe."""
    fields = {name: getattr(recipe, name) for name in Preparation.model_fields}
    return Preparation(**fields)


def own_size(config: dict[str, Any], model: str) -> int:
    """Return the side of a model's square input; raise ValueError if it does not take RGB squares."""
    channels, height, width = config["input_size"]
    if channels != 3 or height != width:
        raise ValueError(
            f"images are embedded as RGB squares, but {model} takes {channels} channels of {height} x {width}. "
            "Set a size that it accepts, or choose another model."
        )
    return int(height)


def resolved_input(config: dict[str, Any], size: int) -> dict[str, Any]:
    """Return the recipe fields that describe the preparation of an image."""
    return {
        "size": size,
        "resize": resize_length(size, config["crop_pct"]),
        "crop": config["crop_mode"],
        "crop_fraction": config["crop_pct"],
        "interpolation": config["interpolation"],
        "antialias": True,
        "resizer": "pillow",
        "decoder": "pillow",
        "mean": config["mean"],
        "std": config["std"],
        "normalised": False,
    }


def fraction_for(size: int, resize: int) -> float:
    """Return the crop fraction for which `resize_length(size, fraction)` is exactly `resize`.

    >>> resize_length(224, fraction_for(224, 236))
    236
    """
    fraction = size / resize
    while resize_length(size, fraction) < resize:
        fraction = math.nextafter(fraction, 0.0)
    return fraction


def three(numbers: Sequence[float] | float) -> Channels:
    """Return one number for each RGB channel."""
    if isinstance(numbers, int | float):
        return (float(numbers),) * 3
    red, green, blue = (float(number) for number in numbers)
    return red, green, blue
