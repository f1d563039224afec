"""Preparation of images equals that of timm."""

import numpy as np
import pytest
import timm
import timm.data
import torch
from noise import pixels
from PIL import Image

from frostbench.embedcache.decode import DecodeError
from frostbench.embedcache.preprocess import prepare_image
from frostbench.embedcache.recipe import Recipe


@pytest.mark.parametrize("crop", ["center", "squash", "border"])
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
@pytest.mark.parametrize("shape", [(300, 500), (501, 333), (64, 64), (30, 47), (257, 256), (1, 40), (224, 256)])
def test_preparation_is_timms_evaluation_transform_pixel_for_pixel(
    crop: str, interpolation: str, shape: tuple[int, int]
) -> None:
    image = pixels(*shape)
    for size, fraction in ((224, 0.875), (224, 1.0), (96, 0.9)):
        recipe = Recipe(
            provider="external",
            model="m",
            size=size,
            resize=int(size / fraction),
            crop=crop,
            interpolation=interpolation,
            mean=(0.485, 0.456, 0.406),
        )
        transform = timm.data.create_transform(
            (3, size, size),
            crop_pct=fraction,
            crop_mode=crop,
            interpolation=interpolation,
            mean=(0.485, 0.456, 0.406),
            normalize=False,
        )
        torch.testing.assert_close(prepare_image(image, recipe), transform(Image.fromarray(image)), rtol=0, atol=0)


def test_preparation_refuses_what_it_cannot_do() -> None:
    recipe = Recipe(
        provider="external", model="m", size=8, resize=8, crop="center", interpolation="box", mean=(0, 0, 0)
    )
    with pytest.raises(TypeError, match="must be uint8"):
        prepare_image(pixels(9, 9).astype(np.float32), recipe)
    with pytest.raises(ValueError, match="must state size, resize, mean and interpolation to prepare images"):
        prepare_image(pixels(9, 9), Recipe(provider="external", model="m"))
    with pytest.raises(DecodeError, match="too long and thin: 20000 x 1"):
        prepare_image(pixels(1, 20_000), recipe.model_copy(update={"resize": 256}))
