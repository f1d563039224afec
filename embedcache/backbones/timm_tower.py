"""Poolings of timm models, which are also the image towers of many open_clip models."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from frostbench.embedcache.backbones.hashing import weights_sha256
from frostbench.embedcache.backbones.pooling import PoolingName, pool_tokens
from frostbench.embedcache.backbones.sizing import set_size
from frostbench.embedcache.backbones.tower import END, Features, Offer

_AVERAGE = ("avg", "fast", "fastavg")


class TimmTower:
    """timm model without its classifier.

    Models with tokens [B, T, D] have cls (if there is a class token), patch_mean, gem, tokens and output. Models with
    maps [B, C, H, W] or [B, H, W, C] whose own pooling is the average have avg, gem and tokens. Both output and avg are
    timm's own `forward_head(features, pre_logits=True)`.
    """

    def __init__(self, model: Any, name: str) -> None:
        self.model = model
        self.libraries: Sequence[str] = ()
        self.facts: Mapping[str, Any] = {}
        self.half_breaks = "dinov3" in name.lower()
        self._name = name
        self._prefix = int(getattr(model, "num_prefix_tokens", 0))

    def sha256(self) -> str:
        """Return the hash of all tensors of the model."""
        return weights_sha256(self.model)

    def set_size(self, size: int) -> None:
        """Set the input size, resampling position embeddings if the model has any."""
        set_size(self.model, size, self._name)

    def features(self, x: torch.Tensor, layers: Sequence[int]) -> Features:
        """Return the output of `forward_features` and the normalised tokens of earlier blocks."""
        if not layers:
            return {END: self.model.forward_features(x)}
        depth, ordered = len(self.model.blocks), sorted(layers)
        end, earlier = self.model.forward_intermediates(
            x,
            indices=[depth + layer for layer in ordered],
            return_prefix_tokens=self._prefix > 0,
            norm=True,
            output_fmt="NLC",
        )
        if self._prefix:
            earlier = [torch.cat([prefix, patches], dim=1) for patches, prefix in earlier]
        return {END: end, **dict(zip(ordered, earlier, strict=True))}

    def offer(self, features: Features) -> Offer:
        """Return the poolings for the type of the final features."""
        end = features[END]
        if isinstance(end, torch.Tensor) and end.ndim == 3:
            class_token = getattr(self.model, "cls_token", None) is not None
            # Without num_prefix_tokens it is unknown where class and register tokens end.
            if not class_token or hasattr(self.model, "num_prefix_tokens"):
                default = ("cls", "patch_mean") if class_token else ("patch_mean",)
                return Offer((*default, "gem", "tokens", "output"), default, self._depth())
        if isinstance(end, torch.Tensor) and end.ndim == 4 and _own_pooling(self.model) in _AVERAGE:
            return Offer(("avg", "gem", "tokens"), ("avg",))
        shape = list(end.shape) if isinstance(end, torch.Tensor) else type(end).__name__
        raise ValueError(
            "a backbone must return tokens [B, T, D] with a known number of class and register tokens, or a 4-D map "
            f"that it pools by averaging, but {self._name} returns {shape} with pooling {_own_pooling(self.model)!r}. "
            "Choose another model."
        )

    def pool(self, features: Features, name: PoolingName) -> torch.Tensor:
        """Pool features; cls and patch_mean are followed by the model's fc_norm, if it has one."""
        value = features[name.layer or END]
        if name.pooling in ("avg", "output"):
            vectors: torch.Tensor = self.model.forward_head(value, pre_logits=True).flatten(1)
            return vectors
        if value.ndim == 4:
            positions = value.flatten(1, 2) if self._channels_last() else value.flatten(2).transpose(1, 2)
            return pool_tokens(positions, 0, name)
        return pool_tokens(value, self._prefix, name, getattr(self.model, "fc_norm", None))

    def _channels_last(self) -> bool:
        return getattr(self.model, "output_fmt", "NCHW") == "NHWC"

    def _depth(self) -> int:
        """Return the number of blocks, or 0 if `forward_intermediates` cannot return their prefix tokens."""
        method = getattr(self.model, "forward_intermediates", None)
        if method is None or "return_prefix_tokens" not in inspect.signature(method).parameters:
            return 0
        return len(getattr(self.model, "blocks", ()))


def _own_pooling(model: Any) -> str:
    """Return the name of the model's own global pooling, or "unknown"."""
    for holder in (model, getattr(model, "head", None)):
        pooling = getattr(holder, "global_pool", None)
        name = pooling if isinstance(pooling, str) else getattr(pooling, "pool_type", None)
        if isinstance(name, str):
            return name
    return "unknown"
