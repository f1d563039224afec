"""Policies that make a view of one image."""

import threading
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import torch
from PIL import Image as Pictures
from pydantic import Field, model_validator
from torchvision.transforms import v2

from frostbench.embedcache.views.policy import Image, Policy, View

Strength = Annotated[float, Field(ge=0, le=10)]
_DRAWING = threading.Lock()
"""torchvision draws from torch's global generator, which all threads share."""


class Flip(Policy):
    """The mirror image, left to right."""

    kind: Literal["flip"] = "flip"
    is_fixed: ClassVar[bool] = True

    @property
    def views(self) -> int:
        """There is one."""
        return 1

    def __call__(self, image: Image, seed: int, number: int) -> View:
        """The mirrored image."""
        return View(np.ascontiguousarray(image[:, ::-1]))


class Crops(Policy):
    """The four corners and, mirrored, the same four: Krizhevsky et al., NeurIPS 2012, section 4.1, without the centre.

    The centre is the image itself. A crop then goes through the recipe's own resize and crop, as every image does.
    """

    kind: Literal["crops"] = "crops"
    fraction: float = Field(default=0.85, gt=0.1, lt=1)
    """Side of a crop as a share of the image's."""
    mirrored: bool = False
    """Whether the four mirrored corners follow."""
    is_fixed: ClassVar[bool] = True

    @property
    def views(self) -> int:
        """Four, or eight."""
        return 8 if self.mirrored else 4

    def __call__(self, image: Image, seed: int, number: int) -> View:
        """Corner `number` mod 4: top left, top right, bottom left, bottom right."""
        height, width = (max(1, round(self.fraction * side)) for side in image.shape[:2])
        top = 0 if number % 4 < 2 else image.shape[0] - height
        left = 0 if number % 2 == 0 else image.shape[1] - width
        cut = image[top : top + height, left : left + width]
        return View(np.ascontiguousarray(cut[:, ::-1] if number >= 4 else cut))


class RandomCrop(Policy):
    """Part of the image of random area and aspect: Szegedy et al., CVPR 2015, section 6.

    With several views per image it is the multi-crop of Caron et al. (SwAV, NeurIPS 2020), at one resolution.
    """

    kind: Literal["random_crop"] = "random_crop"
    least: float = Field(default=0.3, gt=0, le=1)
    """Smallest share of the image's area."""
    most: float = Field(default=1.0, gt=0, le=1)
    """Largest share of the image's area."""
    flip: float = Field(default=0.5, ge=0, le=1)
    """Probability that the crop is mirrored."""

    @model_validator(mode="after")
    def _is_ordered(self) -> Self:
        if self.least > self.most:
            raise ValueError(f"least is at most most, however: {self.least} and {self.most} came. Exchange them.")
        return self

    def __call__(self, image: Image, seed: int, number: int) -> View:
        """A random crop."""
        rng = np.random.default_rng(seed)
        top, left, height, width = self._box(image.shape[0], image.shape[1], rng)
        cut = image[top : top + height, left : left + width]
        return View(np.ascontiguousarray(cut[:, ::-1] if rng.random() < self.flip else cut))

    def _box(self, rows: int, columns: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
        """Top, left, height and width; the whole image where ten draws do not fit."""
        for _ in range(10):
            area = rows * columns * rng.uniform(self.least, self.most)
            aspect = float(np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3))))
            width, height = round((area * aspect) ** 0.5), round((area / aspect) ** 0.5)
            if 0 < width <= columns and 0 < height <= rows:
                return int(rng.integers(rows - height + 1)), int(rng.integers(columns - width + 1)), height, width
        return 0, 0, rows, columns


class ColourJitter(Policy):
    """Brightness, contrast, saturation and hue change at random: Chen et al. (SimCLR), ICML 2020, appendix A."""

    kind: Literal["colour_jitter"] = "colour_jitter"
    brightness: Strength = 0.4
    """Factors are drawn from 1 - x to 1 + x."""
    contrast: Strength = 0.4
    """Factors are drawn from 1 - x to 1 + x."""
    saturation: Strength = 0.2
    """Factors are drawn from 1 - x to 1 + x."""
    hue: float = Field(default=0.05, ge=0, le=0.5)
    """Shifts are drawn from -x to x, in turns of the colour circle."""

    def __call__(self, image: Image, seed: int, number: int) -> View:
        """The image in other colours."""
        return _drawn(v2.ColorJitter(self.brightness, self.contrast, self.saturation, self.hue), image, seed)


class RandAugment(Policy):
    """A few operations of one strength: Cubuk et al., CVPR Workshops 2020, as in torchvision."""

    kind: Literal["rand_augment"] = "rand_augment"
    operations: int = Field(default=2, ge=1, le=10)
    """Operations one after the other, N of the paper."""
    magnitude: int = Field(default=9, ge=0, le=30)
    """Their strength, M of the paper."""

    def __call__(self, image: Image, seed: int, number: int) -> View:
        """The image after random operations."""
        return _drawn(v2.RandAugment(self.operations, self.magnitude), image, seed)


class AutoAugment(Policy):
    """A policy learned on another data set: Cubuk et al., CVPR 2019, as in torchvision."""

    kind: Literal["auto_augment"] = "auto_augment"
    learned_on: Literal["imagenet", "cifar10", "svhn"] = "imagenet"
    """The data set that the policy was learned on."""

    def __call__(self, image: Image, seed: int, number: int) -> View:
        """The image after two operations of the policy."""
        return _drawn(v2.AutoAugment(v2.AutoAugmentPolicy(self.learned_on)), image, seed)


class TrivialAugment(Policy):
    """One operation of random strength: Müller and Hutter, ICCV 2021, in its wide form, as in torchvision."""

    kind: Literal["trivial_augment"] = "trivial_augment"

    def __call__(self, image: Image, seed: int, number: int) -> View:
        """The image after one operation."""
        return _drawn(v2.TrivialAugmentWide(), image, seed)


def _drawn(transform: Any, image: Image, seed: int) -> View:
    """What a torchvision transform makes of an image with a seed of its own."""
    picture = Pictures.fromarray(image)
    with _DRAWING, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        altered = transform(picture)
    return View(np.array(altered))
