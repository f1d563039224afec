"""The canary of a cache, as it travels in a bundle, and its check."""

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
    """The canary image with the vectors that the cache's backbone gave for it; None for imported vectors.

    Raises:
        ValueError: the cache was begun with another canary image than this version draws.
    """
    stored = read_state(cache_dir)[0].get("canary")
    if stored is None:
        return None
    if stored["pixels_sha256"] != canary_sha256():
        raise ValueError(
            f"a bundle carries the canary image of its cache, however: {cache_dir} was begun with image "
            f"{stored['pixels_sha256'][:12]} and this version draws {canary_sha256()[:12]}. Embed the images anew."
        )
    png = BytesIO()
    Image.fromarray(canary_image()).save(png, "png")
    return Canary(png.getvalue(), {name: torch.tensor(vector) for name, vector in stored["vectors"].items()})


def canary_for(canary: Canary | None, columns: Sequence[str], tokens: Container[str] = ()) -> Canary | None:
    """The canary as a head that reads these columns keeps it; None where one of them has no vector for it.

    A cache keeps no patch tokens of its canary, so heads that pool tokens travel without one.
    """
    if canary is None or any(name in tokens or name not in canary.vectors for name in columns):
        return None
    return canary


def check_canary(canary: Canary, backbones: BackboneGroup) -> None:
    """Embed the canary's image and compare it with its stored vectors.

    Raises:
        ValueError: the image is none of the canary's size, or a vector is too far away.
    """
    with Image.open(BytesIO(canary.png), formats=("PNG",)) as picture:
        # Before its pixels are decoded: the file came with the bundle.
        if picture.size != (SIDE, SIDE):
            raise ValueError(
                f"a canary is a picture of {SIDE} x {SIDE} pixels, however: that of the bundle has {picture.size}. "
                "Export it again."
            )
        pixels = np.asarray(picture.convert("RGB"))
    found = backbones.embed([backbones.prepare(pixels)])
    for name, wanted in canary.vectors.items():
        distance = apart(found[name][0].numpy(), wanted.numpy())
        if not distance <= APART:
            raise ValueError(
                f"the backbone must give the vectors the head was trained on, however: that of the canary image in "
                f"column {name!r} is {distance:.6f} of its length away, more than {APART}. Install the versions "
                "named in the bundle's card.json."
            )
