"""How salient the patches of rare images are to a backbone, each asked once."""

import numpy as np

from frostbench.embedcache.backbones import Backbone
from frostbench.embedcache.backbones.attention import class_attention
from frostbench.embedcache.extraction.events import Embedder
from frostbench.embedcache.views.policy import Image
from frostbench.embedcache.views.transplant import Transplant, occlusion, resampled, squared

KEPT = 256
"""Images whose saliency is remembered: the views of one image follow one another."""


class Saliency:
    """Saliency of images by id."""

    def __init__(self, backbone: Embedder, policy: Transplant) -> None:
        self._backbone, self._policy = backbone, policy
        self._found: dict[str, np.ndarray] = {}

    def __call__(self, name: str, image: Image) -> np.ndarray:
        """How salient the patches [grid, grid] of the image of that id are."""
        if name not in self._found:
            if len(self._found) >= KEPT:
                self._found.pop(next(iter(self._found)))
            self._found[name] = self._ask(image)
        return self._found[name]

    def _ask(self, image: Image) -> np.ndarray:
        recipe = next(iter(self._backbone.recipes.values()))
        if recipe.size is None:
            raise ValueError(f"saliency needs a recipe with a size, however: {recipe.hash} has none.")
        grid = self._policy.grid
        if self._policy.saliency == "occlusion":
            return occlusion(self._backbone, image, recipe.size, grid, self._backbone.batch)
        if not isinstance(self._backbone, Backbone):
            raise ValueError(
                f"attention is asked of a model, however: a {type(self._backbone).__name__} came. Set "
                "saliency=occlusion, which asks for vectors alone."
            )
        return resampled(class_attention(self._backbone, squared(image, recipe.size)[None])[0], grid)
