"""Policies that make a view from one image."""

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
"""Lock for torch's global generator, which torchvision uses and all threads share."""


class Flip(Policy):
    """Horizontal flip."""

    kind: Literal["flip"] = "flip"
    is_fixed: ClassVar[bool] = True

    @property
    def views(self) -> int:
        """Number of views."""
        return 1

    def __call__(self, image: Image, seed: int, number: int) -> View:
        """Flip the image."""
        return View(np.ascontiguousarray(image[:, ::-1]))


class Crops(Policy):
    """Four corner crops and optionally their mirror images: Krizhevsky et al., NeurIPS 2012, section 4.1.

    The centre crop of the paper is left out, because the image itself shows it. Crops then go through the recipe's own
    resize and crop, like every image.
    """

    kind: Literal["crops"] = "crops"
    fraction: float = Field(default=0.85, gt=0.1, lt=1)
    """Side of a crop as a share of the image's side."""
    mirrored: bool = False
    """Whether the four crops are followed by their mirror images."""
    is_fixed: ClassVar[bool] = True

    @property
    def views(self) -> int:
        """Number of views."""
        return 8 if self.mirrored else 4

    def __call__(self, image: Image, seed: int, number: int) -> View:
        """Crop corner `number` mod 4: top left, top right, bottom left, bottom right."""
        height, width = (max(1, round(self.fraction * side)) for side in image.shape[:2])
        top = 0 if number % 4 < 2 else image.shape[0] - height
        left = 0 if number % 2 == 0 else image.shape[1] - width
        crop = image[top : top + height, left : left + width]
        return View(np.ascontiguousarray(crop[:, ::-1] if number >= 4 else crop))


class RandomCrop(Policy):
    """Crop of random area and aspect ratio: Szegedy et al., CVPR 2015, section 6.

    With several views per image this is the multi-crop of Caron et al. (SwAV, NeurIPS 2020) at one resolution.
    """

    kind: Literal["random_crop"] = "random_crop"
    least: float = Field(default=0.3, gt=0, le=1)
    """Smallest share of the image's area."""
    most: float = Field(default=1.0, gt=0, le=1)
    """Largest share of the image's area."""
    flip: float = Field(default=0.5, ge=0, le=1)
    """Probability of mirroring the crop."""

    @model_validator(mode="after")
    def _is_ordered(self) -> Self:
        if self.least > self.most:
            raise ValueError(f"least must not exceed most, got least={self.least} and most={self.most}. Swap them.")
        return self

    def __call__(self, image: Image, seed: int, number: int) -> View:
        """Crop the image at random."""
        rng = np.random.default_rng(seed)
        top, left, height, width = self._box(image.shape[0], image.shape[1], rng)
        crop = image[top : top + height, left : left + width]
        return View(np.ascontiguousarray(crop[:, ::-1] if rng.random() < self.flip else crop))

    def _box(self, rows: int, columns: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
        """Return top, left, height and width; the full image if ten draws do not fit."""
        for _ in range(10):
            area = rows * columns * rng.uniform(self.least, self.most)
            aspect = float(np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3))))
            width, height = round((area * aspect) ** 0.5), round((area / aspect) ** 0.5)
            if 0 < width <= columns and 0 < height <= rows:
                return int(rng.integers(rows - height + 1)), int(rng.integers(columns - width + 1)), height, width
        return 0, 0, rows, columns


class ColourJitter(Policy):
    """Random brightness, contrast, saturation and hue: Chen et al. (SimCLR), ICML 2020, appendix A."""

    kind: Literal["colour_jitter"] = "colour_jitter"
    brightness: Strength = 0.4
    """Brightness strength x; factors are drawn from 1 - x to 1 + x."""
    contrast: Strength = 0.4
    """Contrast strength x; factors are drawn from 1 - x to 1 + x."""
    saturation: Strength = 0.2
    """Saturation strength x; factors are drawn from 1 - x to 1 + x."""
    hue: float = Field(default=0.05, ge=0, le=0.5)
    """Hue strength x; shifts are drawn from -x to x, in turns of the colour circle."""

    def __call__(self, image: Image, seed: int, number: int) -> View:
        """Change the colours at random."""
        return _transformed(v2.ColorJitter(self.brightness, self.contrast, self.saturation, self.hue), image, seed)


class RandAugment(Policy):
    """Several random operations of one strength: Cubuk et al., CVPR Workshops 2020, as in torchvision."""

    kind: Literal["rand_augment"] = "rand_augment"
    operations: int = Field(default=2, ge=1, le=10)
    """Number of consecutive operations, N in the paper."""
    magnitude: int = Field(default=9, ge=0, le=30)
    """Strength of the operations, M in the paper."""

    def __call__(self, image: Image, seed: int, number: int) -> View:
        """Apply random operations."""
        return _transformed(v2.RandAugment(self.operations, self.magnitude), image, seed)


class AutoAugment(Policy):
    """Policy learned on another data set: Cubuk et al., CVPR 2019, as in torchvision."""

    kind: Literal["auto_augment"] = "auto_augment"
    learned_on: Literal["imagenet", "cifar10", "svhn"] = "imagenet"
    """Data set on which the policy was learned."""

    def __call__(self, image: Image, seed: int, number: int) -> View:
        """Apply two operations of the policy."""
        return _transformed(v2.AutoAugment(v2.AutoAugmentPolicy(self.learned_on)), image, seed)


class TrivialAugment(Policy):
    """One operation of random strength: Müller and Hutter, ICCV 2021, wide variant, as in torchvision."""

    kind: Literal["trivial_augment"] = "trivial_augment"

    def __call__(self, image: Image, seed: int, number: int) -> View:
        """Apply one random operation."""
        return _transformed(v2.TrivialAugmentWide(), image, seed)


def _transformed(transform: Any, image: Image, seed: int) -> View:
    """Apply a torchvision transform under its own seed."""
    picture = Pictures.fromarray(image)
    with _DRAWING, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        altered = transform(picture)
    return View(np.array(altered))
