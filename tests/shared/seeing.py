"""A backbone that is known: its vector is the mean colour, and images whose colours say what they show."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from frostbench.embedcache.preprocess import prepare_image
from frostbench.embedcache.recipe import Recipe

FIELDS = {
    "provider": "timm",
    "model": "mean colour",
    "weights_sha256": "0" * 64,
    "resize": None,
    "crop": "squash",
    "crop_fraction": 1.0,
    "interpolation": "box",
    "antialias": True,
    "resizer": "pillow",
    "decoder": "pillow",
    "alpha_background": (255, 255, 255),
    "mean": (0.0, 0.0, 0.0),
    "std": (1.0, 1.0, 1.0),
    "autocast": "float32",
    "pooling": "cls",
    "normalised": False,
}


def recipe(size: int = 8, **changes: object) -> Recipe:
    return Recipe.model_validate(FIELDS | {"size": size, "resize": size} | changes)


@dataclass
class Halves:
    """Its vector is the mean colour of the left half and that of the right half, over 16: [6]."""

    size: int = 8
    batch: int = 4
    embedded: int = 0
    tokens: Mapping[str, int] = field(default_factory=dict)
    provenance: Mapping[str, str] = field(default_factory=lambda: {"device": "none"})

    @property
    def recipes(self) -> dict[str, Recipe]:
        return {"cls": recipe(self.size)}

    @property
    def dims(self) -> dict[str, int]:
        return {"cls": 6}

    def prepare(self, image: np.ndarray) -> torch.Tensor:
        return prepare_image(image, recipe(self.size))

    def embed(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
        self.embedded += len(batch)
        half = self.size // 2
        x = batch.float() / 16
        return {"cls": torch.cat([x[..., :half].mean((2, 3)), x[..., half:].mean((2, 3))], 1)}


def write_images(root: Path, counts: Mapping[str, int], size: int = 16) -> Path:
    """Images of each class: a left half in the class's colour with noise, and a right half of noise."""
    generator = np.random.default_rng(3)
    for place, (name, count) in enumerate(counts.items()):
        colour = np.array([(60, 130, 200), (200, 60, 130), (130, 200, 60)][place])
        for number in range(count):
            pixels = generator.integers(0, 256, (size, size, 3))
            pixels[:, : size // 2] = np.clip(colour + generator.normal(0, 40, 3), 0, 255)
            path = root / name / f"{number:03d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.astype(np.uint8)).save(path)
    return root
