"""Prepares and embeds images and the test-time views that a head averages over."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from frostbench.embedcache.extraction.backbone_group import BackboneGroup, Prepared
from frostbench.embedcache.views.catalogue import read_policy
from frostbench.embedcache.views.planning import seed_of
from frostbench.heads.trained import view_column


def prepare_views(
    backbones: BackboneGroup, views: Mapping[str, Mapping[str, Any]], name: str, pixels: np.ndarray
) -> tuple[Prepared, ...]:
    """Prepare an image and its views for the backbones.

    Args:
        backbones: backbones that embed them.
        views: recipe of each view by name, as stored in the head.
        name: name of the image, which together with the seed determines the random draws.
        pixels: uint8 [H, W, 3].
    """
    prepared = [backbones.prepare(pixels)]
    for recipe in views.values():
        fields = dict(recipe["policy"])
        policy = read_policy(fields.pop("kind"), fields)
        view = policy(pixels, seed_of(recipe["seed"], name, recipe["number"]), recipe["number"])  # type: ignore[operator]
        prepared.append(backbones.prepare(np.ascontiguousarray(view.image)))
    return tuple(prepared)


def vectors_of(
    backbones: BackboneGroup, views: Mapping[str, Mapping[str, Any]], prepared: Sequence[tuple[Prepared, ...]]
) -> dict[str, Tensor]:
    """Embed N prepared images; return vectors [N, D] by column, and those of their views by COLUMN@VIEW."""
    vectors: dict[str, Tensor] = {}
    for number, view in enumerate((None, *views)):
        embedded = backbones.embed([image[number] for image in prepared])
        vectors |= {name if view is None else view_column(name, view): value for name, value in embedded.items()}
    return {name: torch.as_tensor(value) for name, value in vectors.items()}
