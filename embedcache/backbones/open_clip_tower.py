"""Poolings of open_clip's image towers: CLIP, SigLIP, SigLIP 2, Perception Encoder and others."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from open_clip.timm_model import TimmModel
from open_clip.transformer import VisionTransformer

from frostbench.embedcache.backbones.hashing import weights_sha256
from frostbench.embedcache.backbones.pooling import PoolingName, pool_tokens
from frostbench.embedcache.backbones.sizing import check_patches
from frostbench.embedcache.backbones.timm_tower import TimmTower
from frostbench.embedcache.backbones.tower import END, Features, Offer

_PROJECTION = "projection"


class OpenClipTower:
    """Image tower of an open_clip model.

    All towers have projection, which is `encode_image(x, normalize=False)`: the embedding in the space shared with
    text, without scaling to length one. Vision transformers also have cls, patch_mean, gem and tokens, taken after the
    tower's own normalisation and before the projection.

    Args:
        rebuild: function that builds the tower for an image size; None stands for its own size.
        name: name of the model, for messages.
        facts: recipe fields that the provider knows.
    """

    def __init__(self, rebuild: Callable[[int | None], Any], name: str, facts: Mapping[str, Any]) -> None:
        self.model = rebuild(None).eval()
        self.libraries: Sequence[str] = ("open_clip_torch",)
        self.half_breaks = "dinov3" in name.lower()
        self._rebuild = rebuild
        self._name = name
        self._trunk = self._make_trunk()
        prefix = self._prefix()
        self.facts: Mapping[str, Any] = {**facts, "prefix_tokens": prefix}

    def sha256(self) -> str:
        """Return the hash of all tensors of the image tower."""
        return weights_sha256(self.model)

    def set_size(self, size: int) -> None:
        """Reload the weights with resampled position embeddings if the size differs from the current one."""
        if isinstance(self.model, VisionTransformer):
            check_patches(size, self.model.patch_size, self._name)
        own = self.model.image_size
        if own not in (size, (size, size)):
            self.model = self._rebuild(size).eval()
            self._trunk = self._make_trunk()

    def features(self, x: torch.Tensor, layers: Sequence[int]) -> Features:
        """Return a timm trunk's features, a vision transformer's unnormalised tokens, or else the projection."""
        if self._trunk is not None:
            return self._trunk.features(x, layers)
        if not isinstance(self.model, VisionTransformer):
            return {END: self.model(x)}
        depth = len(self.model.transformer.resblocks)
        ordered = [*sorted(layers), -1]
        output = self.model.forward_intermediates(
            x,
            indices=[depth + layer for layer in ordered],
            intermediates_only=True,
            output_fmt="NLC",
            output_extra_tokens=True,
        )
        pairs = zip(output["image_intermediates_prefix"], output["image_intermediates"], strict=True)
        tokens = [torch.cat(pair, dim=1) for pair in pairs]
        return dict(zip([*ordered[:-1], END], tokens, strict=True))

    def offer(self, features: Features) -> Offer:
        """Return the projection and the further poolings of the tower type."""
        default = (_PROJECTION,)
        if self._trunk is not None:
            if features[END].ndim != 3:
                return Offer((*default, "gem", "tokens"), default)
            trunk = self._trunk.offer(features)
            return Offer((*default, *(name for name in trunk.available if name != "output")), default, trunk.depth)
        if isinstance(self.model, VisionTransformer) and self.model.attn_pool is None:
            depth = len(self.model.transformer.resblocks)
            return Offer((*default, "cls", "patch_mean", "gem", "tokens"), default, depth)
        return Offer(default, default)

    def pool(self, features: Features, name: PoolingName) -> torch.Tensor:
        """Pool in float32; the projection too is computed here, unless `features` returned it."""
        if name.pooling == _PROJECTION:
            return self._project(features[END])
        if self._trunk is not None:
            return self._trunk.pool(features, name)
        value, norm = features[name.layer or END], self.model.ln_post
        if self.model.final_ln_after_pool:
            return pool_tokens(value, 1, name, norm)
        return pool_tokens(norm(value), 1, name)

    def _project(self, end: torch.Tensor) -> torch.Tensor:
        if self._trunk is not None:
            vectors: torch.Tensor = self.model.head(self._trunk.model.forward_head(end))
            return vectors
        if not isinstance(self.model, VisionTransformer):
            return end
        # open_clip has no public method from tokens to the embedding.
        pooled: torch.Tensor = self.model._pool(end)[0]
        return pooled if self.model.proj is None else pooled @ self.model.proj

    def _make_trunk(self) -> TimmTower | None:
        return TimmTower(self.model.trunk, self._name) if isinstance(self.model, TimmModel) else None

    def _prefix(self) -> int | None:
        if self._trunk is not None:
            return getattr(self.model.trunk, "num_prefix_tokens", None)
        return 1 if isinstance(self.model, VisionTransformer) else None
