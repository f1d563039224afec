"""Builds the canary that a bundle carries and checks a backbone against it."""

from collections.abc import Container, Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from frostbench.embedcache.canary import APART, SIDE, apart, canary_image, canary_sha256
from frostbench.embedcache.extraction.backbone_group import BackboneGroup
from frostbench.embedcache.table import read_state
from frostbench.heads.bundle.export import Canary


def canary_of(cache_dir: Path) -> Canary | None:
    """Return the canary image with the vectors of the cache's backbone, or None for imported vectors.

    Raises:
        ValueError: the cache was created with a different canary image than this version draws.
    """
    stored = read_state(cache_dir)[0].get("canary")
    if stored is None:
        return None
    if stored["pixels_sha256"] != canary_sha256():
        raise ValueError(
            f"{cache_dir} was created with canary image {stored['pixels_sha256'][:12]}, but this version draws "
            f"{canary_sha256()[:12]}. Embed the images again."
        )
    png = BytesIO()
    Image.fromarray(canary_image()).save(png, "png")
    return Canary(png.getvalue(), {name: torch.tensor(vector) for name, vector in stored["vectors"].items()})


def canary_for(canary: Canary | None, columns: Sequence[str], tokens: Container[str] = ()) -> Canary | None:
    """Return the canary for a head that reads these columns, or None if a column has no canary vector.

    A cache stores no patch tokens of its canary, so heads that pool tokens have none.
    """
    if canary is None or any(name in tokens or name not in canary.vectors for name in columns):
        return None
    return canary


def check_canary(canary: Canary, backbones: BackboneGroup) -> None:
    """Embed the canary image and compare the result with its stored vectors.

    Raises:
        ValueError: the image does not have the size of a canary, or a vector is too far from the stored one.
    """
    with Image.open(BytesIO(canary.png), formats=("PNG",)) as image:
        # The file is untrusted, so its size is checked before its pixels are decoded.
        if image.size != (SIDE, SIDE):
            raise ValueError(
                f"The canary image must be {SIDE} x {SIDE} pixels, but the one in the bundle is "
                f"{image.size[0]} x {image.size[1]}. Export the bundle again."
            )
        pixels = np.asarray(image.convert("RGB"))
    vectors = backbones.embed([backbones.prepare(pixels)])
    for name, expected in canary.vectors.items():
        distance = apart(vectors[name][0].numpy(), expected.numpy())
        if not distance <= APART:
            raise ValueError(
                "The backbone must reproduce the vectors that the head was trained on, but for the canary image the "
                f"vector of column {name!r} is off by {distance:.6f} of its length, more than {APART}. Install the "
                "versions listed in the bundle's card.json."
            )
