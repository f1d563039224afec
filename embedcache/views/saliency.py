"""Saliency of image patches for a backbone, computed once per image."""

import numpy as np

from frostbench.embedcache.backbones import Backbone
from frostbench.embedcache.backbones.attention import class_attention
from frostbench.embedcache.extraction.events import Embedder
from frostbench.embedcache.views.policy import Image
from frostbench.embedcache.views.transplant import Transplant, occlusion, resampled, squared

KEPT = 256
"""Number of images whose saliency is cached; the views of one image follow one another."""


class Saliency:
    """Cached saliency of images by id."""

    def __init__(self, backbone: Embedder, policy: Transplant) -> None:
        self._backbone, self._policy = backbone, policy
        self._cached: dict[str, np.ndarray] = {}

    def __call__(self, name: str, image: Image) -> np.ndarray:
        """Return the saliency [grid, grid] of the patches of the image with this id."""
        if name not in self._cached:
            if len(self._cached) >= KEPT:
                self._cached.pop(next(iter(self._cached)))
            self._cached[name] = self._compute(image)
        return self._cached[name]

    def _compute(self, image: Image) -> np.ndarray:
        recipe = next(iter(self._backbone.recipes.values()))
        if recipe.size is None:
            raise ValueError(
                f"saliency requires a recipe with a size, but {recipe.hash} has none. Choose another backbone."
            )
        grid = self._policy.grid
        if self._policy.saliency == "occlusion":
            return occlusion(self._backbone, image, recipe.size, grid, self._backbone.batch)
        if not isinstance(self._backbone, Backbone):
            raise ValueError(
                f"attention saliency requires a Backbone, got a {type(self._backbone).__name__}. Set "
                "saliency=occlusion, which needs vectors only."
            )
        return resampled(class_attention(self._backbone, squared(image, recipe.size)[None])[0], grid)
