"""Transplant of salient patches of rare images into frequent ones, and occlusion saliency."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
import torch
from PIL import Image as Pictures
from pydantic import Field

from frostbench.embedcache.extraction.events import Embedder
from frostbench.embedcache.views.pairs import scaled
from frostbench.embedcache.views.policy import Image, Policy, View


class Transplant(Policy):
    """Pasting of the most salient patches of a rare class's image into one of a frequent class, with the rare label.

    After Park et al., "The majority can help the minority: context-rich minority oversampling", CVPR 2022, who paste
    random boxes and share the label. Saliency is measured by occlusion (Zeiler and Fergus, ECCV 2014), the change of
    the vector's direction when a patch is painted in the image's mean colour, with grid² + 1 embedded images per rare
    image; or by the attention of the class token in the last block, averaged over heads (Caron et al., ICCV 2021).
    """

    kind: Literal["transplant"] = "transplant"
    share: float = Field(default=0.3, gt=0, lt=1)
    """Share of the image's area that is pasted."""
    grid: int = Field(default=7, ge=2, le=32)
    """Number of patches along each side of the image."""
    saliency: Literal["occlusion", "attention"] = "occlusion"
    """Measure of saliency; attention requires a vision transformer with a class token."""
    rare_below: int = Field(default=20, ge=2, le=100_000)
    """Classes with fewer training images than this are rare; images of the other classes are backgrounds."""
    needs_partner: ClassVar[bool] = True

    def __call__(self, image: Image, partner: Image, salient: np.ndarray) -> View:
        """Paste the patches with the highest saliency [grid, grid] into the partner, scaled to the image's size."""
        count = max(1, round(self.share * salient.size))
        chosen = np.zeros(salient.size, bool)
        # Stable, so that ties are resolved in reading order on every machine.
        chosen[np.argsort(-salient.ravel(), kind="stable")[:count]] = True
        rows, columns = image.shape[:2]
        mask = chosen.reshape(salient.shape)[_cells(rows, salient.shape[0])][:, _cells(columns, salient.shape[1])]
        return View(np.where(mask[:, :, None], image, scaled(partner, rows, columns)))


def occlusion(backbone: Embedder, image: Image, size: int, grid: int, batch: int) -> np.ndarray:
    """Return 1 - cosine between the vector of an image and that with one patch in its mean colour, [grid, grid]."""
    square = squared(image, size).permute(1, 2, 0).numpy()
    cells = _cells(size, grid)
    grey = square.reshape(-1, 3).mean(0).round().astype(np.uint8)
    occluded = [square]
    for patch in range(grid * grid):
        painted = square.copy()
        painted[np.ix_(cells == patch // grid, cells == patch % grid)] = grey
        occluded.append(painted)
    pixels = torch.from_numpy(np.stack(occluded)).permute(0, 3, 1, 2)
    vectors = torch.cat([_first(backbone.embed(part.contiguous())) for part in torch.split(pixels, batch)]).double()
    cosines = torch.nn.functional.cosine_similarity(vectors[1:], vectors[:1])
    return (1 - cosines).reshape(grid, grid).numpy()


def squared(image: Image, size: int) -> torch.Tensor:
    """Squash the full image to uint8 [3, size, size], so that no recipe crops its patches."""
    square = np.array(Pictures.fromarray(image).resize((size, size), Pictures.Resampling.BICUBIC))
    return torch.from_numpy(square).permute(2, 0, 1)


def resampled(attention: torch.Tensor, grid: int) -> np.ndarray:
    """Average the attention [h, w] of patches over the cells of a grid, [grid, grid]."""
    means = torch.nn.functional.adaptive_avg_pool2d(attention[None, None].double(), grid)
    return means[0, 0].cpu().numpy()


def _first(vectors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return the first column of vectors [B, D], skipping tokens."""
    return next(value for value in vectors.values() if value.ndim == 2)


def _cells(length: int, grid: int) -> np.ndarray:
    """Return the cell index 0..grid-1 of each of `length` pixels."""
    return np.arange(length) * grid // length
