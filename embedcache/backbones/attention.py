"""Where a vision transformer's class token looks in its last block."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from embedcache.backbones.backbone import Backbone
from embedcache.backbones.huggingface import HuggingFaceTower
from embedcache.backbones.timm_tower import TimmTower


@torch.inference_mode()
def class_attention(backbone: Backbone, images: torch.Tensor) -> torch.Tensor:
    """Attention of the class token to the patches in the last block, the mean over its heads.

    Caron et al., "Emerging properties in self-supervised vision transformers", ICCV 2021, figure 1. The attention is
    computed in the plain way, which gives the weights; what is stored of images is computed by the fused one.

    Args:
        backbone: of transformers or timm, with a class token.
        images: uint8 [B, 3, S, S].

    Returns:
        float32 [B, S / patch, S / patch] on the CPU.

    Raises:
        ValueError: the backbone has no class token, or does not show its attention.
    """
    x, tower = backbone.normalise(images.to(backbone.device)), backbone.tower
    if isinstance(tower, HuggingFaceTower):
        weights = _of_transformers(tower.model, x)
        prefix = 1 + int(getattr(tower.model.config, "num_register_tokens", 0))
    elif isinstance(tower, TimmTower) and getattr(tower.model, "cls_token", None) is not None:
        weights, prefix = _of_timm(tower.model, x), int(tower.model.num_prefix_tokens)
    else:
        raise ValueError(
            f"attention is that of a class token, however: {backbone.recipe.model} of {backbone.recipe.provider} does "
            "not show one. Set saliency=occlusion, which any backbone can."
        )
    seen = weights[:, :, 0, prefix:].float().mean(dim=1)
    side = math.isqrt(seen.shape[1])
    return seen.reshape(len(seen), side, side).cpu()


def _of_transformers(model: Any, x: torch.Tensor) -> torch.Tensor:
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        attentions = model(pixel_values=x, output_attentions=True).attentions
    finally:
        model.set_attn_implementation(before)
    if not attentions:
        raise ValueError(
            f"attention must be told by the model, however: {type(model).__name__} tells none. Set saliency=occlusion."
        )
    found: torch.Tensor = attentions[-1]
    return found


def _of_timm(model: Any, x: torch.Tensor) -> torch.Tensor:
    seen: list[torch.Tensor] = []
    attention = model.blocks[-1].attn
    with _unfused(attention):
        # Its input is the softmax; in evaluation mode it drops nothing.
        handle = attention.attn_drop.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        try:
            model.forward_features(x)
        finally:
            handle.remove()
    return seen[-1]


@contextmanager
def _unfused(attention: Any) -> Iterator[None]:
    """Compute attention step by step."""
    before = attention.fused_attn
    attention.fused_attn = False
    try:
        yield
    finally:
        attention.fused_attn = before
