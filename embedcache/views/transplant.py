"""Salient patches of rare images in other surroundings, and how salient the parts of an image are."""

from collections.abc import Mapping
from typing import ClassVar, Literal, Protocol

import numpy as np
import torch
from PIL import Image as Pictures
from pydantic import Field

from frostbench.embedcache.views.pairs import scaled
from frostbench.embedcache.views.policy import Image, Policy, View


class Transplant(Policy):
    """The most salient patches of an image of a rare class, pasted into an image of a frequent one; the rare label.

    After Park et al., "The majority can help the minority: context-rich minority oversampling", CVPR 2022, who paste
    boxes at random and share the label. What is salient is told by occlusion (Zeiler and Fergus, ECCV 2014): how far
    the vector turns when a patch is painted grey, which needs grid² + 1 forward passes for each rare image; or by the
    attention of the class token in the last block, averaged over its heads (Caron et al., ICCV 2021), which needs one.
    """

    kind: Literal["transplant"] = "transplant"
    share: float = Field(default=0.3, gt=0, lt=1)
    """Share of the image's area that is pasted."""
    grid: int = Field(default=7, ge=2, le=32)
    """Patches on each side of the image."""
    saliency: Literal["occlusion", "attention"] = "occlusion"
    """What tells which patches matter; attention needs a vision transformer with a class token."""
    rare_below: int = Field(default=20, ge=2, le=100_000)
    """Classes with fewer training images than this are rare; images of all others are surroundings."""
    needs_partner: ClassVar[bool] = True

    def __call__(self, image: Image, partner: Image, salient: np.ndarray) -> View:
        """The partner, scaled to the image's size, with the most salient [grid, grid] patches of the image."""
        count = max(1, round(self.share * salient.size))
        taken = np.zeros(salient.size, bool)
        # Among equals the first in reading order, on every machine.
        taken[np.argsort(-salient.ravel(), kind="stable")[:count]] = True
        rows, columns = image.shape[:2]
        mask = taken.reshape(salient.shape)[_cells(rows, salient.shape[0])][:, _cells(columns, salient.shape[1])]
        return View(np.where(mask[:, :, None], image, scaled(partner, rows, columns)))


class Sighted(Protocol):
    """A backbone that tells what it looks at."""

    def embed(self, batch: torch.Tensor) -> Mapping[str, torch.Tensor]:
        """uint8 [B, 3, S, S] to vectors by column."""


def occlusion(backbone: Sighted, image: Image, size: int, grid: int, batch: int) -> np.ndarray:
    """How far the backbone's first vector turns when a patch is painted in the image's mean colour, [grid, grid].

    1 - cosine for each patch; 0 where nothing changes.
    """
    square = squared(image, size).permute(1, 2, 0).numpy()
    cells = _cells(size, grid)
    grey = square.reshape(-1, 3).mean(0).round().astype(np.uint8)
    painted = [square]
    for place in range(grid * grid):
        one = square.copy()
        one[np.ix_(cells == place // grid, cells == place % grid)] = grey
        painted.append(one)
    pixels = torch.from_numpy(np.stack(painted)).permute(0, 3, 1, 2)
    vectors = torch.cat([_first(backbone.embed(part.contiguous())) for part in torch.split(pixels, batch)]).double()
    alike = torch.nn.functional.cosine_similarity(vectors[1:], vectors[:1])
    return (1 - alike).reshape(grid, grid).numpy()


def squared(image: Image, size: int) -> torch.Tensor:
    """The whole image squashed to uint8 [3, size, size]: its patches are parts of it, whatever a recipe crops."""
    square = np.array(Pictures.fromarray(image).resize((size, size), Pictures.Resampling.BICUBIC))
    return torch.from_numpy(square).permute(2, 0, 1)


def resampled(attention: torch.Tensor, grid: int) -> np.ndarray:
    """Attention [h, w] of patches as [grid, grid], each cell the mean of the patches in it."""
    means = torch.nn.functional.adaptive_avg_pool2d(attention[None, None].double(), grid)
    return means[0, 0].cpu().numpy()


def _first(vectors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The first column of plain vectors [B, D]."""
    return next(value for value in vectors.values() if value.ndim == 2)


def _cells(length: int, grid: int) -> np.ndarray:
    """The cell, 0..grid-1, in which each of length pixels lies."""
    return np.arange(length) * grid // length
