"""How a model wants its images: what its provider says, and what a person asks for instead."""

import math
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field

from frostbench.embedcache.config import SETTINGS
from frostbench.embedcache.preprocess import resize_length
from frostbench.embedcache.recipe import Channels, Crop, IntensityRange, Interpolation, Recipe

ChannelList = Annotated[Channels, Field(strict=False)]


class Preparation(BaseModel):
    """How images are made ready; a field left out is as the model's provider says.

    Raises:
        pydantic.ValidationError: a field is unknown or out of its bounds.
    """

    model_config = SETTINGS

    size: int | None = Field(default=None, ge=32, le=8192)
    """Side in pixels of the square that the model sees."""
    crop: Crop | None = None
    """How an image becomes a square: center cuts, squash ignores the aspect ratio, border pads."""
    crop_fraction: float | None = Field(default=None, gt=0, le=2)
    """The part of the scaled image's side that the square takes: the image is scaled to floor(size / crop_fraction)."""
    interpolation: Interpolation | None = None
    """The filter of the resize."""
    mean: ChannelList | None = None
    """Subtracted from each RGB channel after scaling pixels to 0..1."""
    std: ChannelList | None = None
    """Divides each RGB channel after the mean was subtracted."""

    intensity_range: IntensityRange | None = None
    """The grey values of images of more than 8 bits that become 0 and 255; left out, all 16 bits count."""

    def over(self, config: dict[str, Any]) -> dict[str, Any]:
        """A provider's configuration with what was asked for instead.

        >>> Preparation(crop="squash").over({"crop_mode": "center", "crop_pct": 0.9})
        {'crop_mode': 'squash', 'crop_pct': 0.9}
        """
        mine = {
            "crop_mode": self.crop,
            "crop_pct": self.crop_fraction,
            "interpolation": self.interpolation,
            "mean": self.mean,
            "std": self.std,
        }
        return config | {name: value for name, value in mine.items() if value is not None}

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left open."""
        return None not in (self.size, self.crop, self.crop_fraction, self.interpolation, self.mean, self.std)

    def config(self) -> dict[str, Any]:
        """A complete preparation in the form in which providers tell it."""
        return self.over({"input_size": (3, self.size, self.size)})


def of_recipe(recipe: Recipe) -> Preparation:
    """What a recipe says of the preparation, to be asked for again."""
    return Preparation(
        size=recipe.size,
        crop=recipe.crop,
        crop_fraction=recipe.crop_fraction,
        interpolation=recipe.interpolation,
        mean=recipe.mean,
        std=recipe.std,
        intensity_range=recipe.intensity_range,
    )


def own_size(config: dict[str, Any], model: str) -> int:
    """The side of the square that a model was made for.

    Raises:
        ValueError: it takes no RGB squares.
    """
    channels, height, width = config["input_size"]
    if channels != 3 or height != width:
        raise ValueError(
            f"images are embedded as RGB squares, however: {model} takes {channels} channels of {height} x {width}. "
            "Give a size that it accepts, or choose another model."
        )
    return int(height)


def resolved_input(config: dict[str, Any], size: int) -> dict[str, Any]:
    """The fields of a recipe that say how an image becomes numbers."""
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
    """The crop fraction at which `resize_length(size, fraction)` is `resize`, in spite of rounding.

    >>> resize_length(224, fraction_for(224, 236))
    236
    """
    fraction = size / resize
    while resize_length(size, fraction) < resize:
        fraction = math.nextafter(fraction, 0.0)
    return fraction


def three(numbers: Sequence[float] | float) -> Channels:
    """One number for each colour."""
    if isinstance(numbers, int | float):
        return (float(numbers),) * 3
    red, green, blue = (float(number) for number in numbers)
    return red, green, blue
