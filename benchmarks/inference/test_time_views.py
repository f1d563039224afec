"""What a predictor sees of an image: its vectors, and those of the views that its head averages over."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from frostbench.embedcache.extraction.backbone_group import BackboneGroup, Prepared
from frostbench.embedcache.views.catalogue import read_policy
from frostbench.embedcache.views.planning import seed_of
from frostbench.heads.trained import view_column


def looks(
    backbones: BackboneGroup, views: Mapping[str, Mapping[str, Any]], name: str, pixels: np.ndarray
) -> tuple[Prepared, ...]:
    """An image and its views, prepared for the backbones.

    Args:
        backbones: what embeds them.
        views: how each view is made, by name, as a head keeps it.
        name: of the image, which with the seed decides what is drawn at random.
        pixels: uint8 [H, W, 3].
    """
    found = [backbones.prepare(pixels)]
    for how in views.values():
        fields = dict(how["policy"])
        policy = read_policy(fields.pop("kind"), fields)
        seen = policy(pixels, seed_of(how["seed"], name, how["number"]), how["number"])  # type: ignore[operator]
        found.append(backbones.prepare(np.ascontiguousarray(seen.image)))
    return tuple(found)


def vectors_of(
    backbones: BackboneGroup, views: Mapping[str, Mapping[str, Any]], seen: Sequence[tuple[Prepared, ...]]
) -> dict[str, Tensor]:
    """The vectors [N, D] of N images by column, and of their views by COLUMN@VIEW."""
    found: dict[str, Tensor] = {}
    for place, view in enumerate((None, *views)):
        part = backbones.embed([each[place] for each in seen])
        found |= {name if view is None else view_column(name, view): value for name, value in part.items()}
    return {name: torch.as_tensor(value) for name, value in found.items()}
