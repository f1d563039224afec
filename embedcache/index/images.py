"""Embedding image files with the recipe of a column, to compare them with its rows."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from frostbench.embedcache.recipe import Recipe

BATCH = 64


def embed_images(
    column: str, recipe: Recipe, images: Sequence[Path], *, weights: Path | None = None, device: str = "cpu"
) -> np.ndarray:
    """Embed image files with a column's recipe, float32 [n, D].

    Raises:
        ValueError: an image cannot be decoded, or the recipe's backbone cannot be rebuilt here.
    """
    import torch

    from frostbench.embedcache.backbones.rebuild import rebuild
    from frostbench.embedcache.decode import DecodeError, decode_file

    backbone = rebuild({column: recipe}, weights=weights, device=device)
    background = recipe.alpha_background or (255, 255, 255)
    decode = partial(decode_file, background=background, intensity_range=recipe.intensity_range)
    parts = []
    for start in range(0, len(images), BATCH):
        prepared = []
        for path in images[start : start + BATCH]:
            try:
                prepared.append(backbone.prepare(decode(path)))
            except DecodeError as error:
                raise ValueError(f"Cannot read the image {path}: {error}. Choose another file.") from error
        (vectors,) = backbone.embed(torch.stack(prepared)).values()
        parts.append(vectors.to(torch.float32).cpu().numpy())
    return np.concatenate(parts)
