"""Attention maps of the class token of vision transformers."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from frostbench.embedcache.backbones.backbone import Backbone
from frostbench.embedcache.backbones.huggingface import HuggingFaceTower
from frostbench.embedcache.backbones.timm_tower import TimmTower


@torch.inference_mode()
def class_attention(backbone: Backbone, images: torch.Tensor) -> torch.Tensor:
    """Compute the attention of the class token to the patches in the last block, averaged over heads.

    Caron et al., "Emerging properties in self-supervised vision transformers", ICCV 2021, figure 1. Stored vectors are
    computed with the fused attention kernel, which is not used here, because it does not return attention weights.

    Args:
        backbone: backbone of transformers or timm with a class token.
        images: uint8 [B, 3, S, S].

    Returns:
        float32 [B, S / patch, S / patch] on the CPU.

    Raises:
        ValueError: the backbone has no class token, or its attention is not accessible.
    """
    x, tower = backbone.normalise(images.to(backbone.device)), backbone.tower
    if isinstance(tower, HuggingFaceTower):
        weights = _of_transformers(tower.model, x)
        prefix = 1 + int(getattr(tower.model.config, "num_register_tokens", 0))
    elif isinstance(tower, TimmTower) and getattr(tower.model, "cls_token", None) is not None:
        weights, prefix = _of_timm(tower.model, x), int(tower.model.num_prefix_tokens)
    else:
        weights, prefix = None, 0
    side = 0 if weights is None or weights.ndim != 4 else math.isqrt(weights.shape[-1] - prefix)
    if weights is None or side == 0 or weights.shape[2] != weights.shape[3] or side**2 + prefix != weights.shape[3]:
        raise ValueError(
            f"attention saliency requires a class token with accessible attention, but {backbone.recipe.model} of "
            f"{backbone.recipe.provider} has none. Set saliency=occlusion, which works with any backbone."
        )
    return weights[:, :, 0, prefix:].float().mean(dim=1).reshape(len(weights), side, side).cpu()


def _of_transformers(model: Any, x: torch.Tensor) -> torch.Tensor | None:
    """Return the attention [B, heads, T, T] of the last block, or None if the model does not report it."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        attentions = getattr(model(pixel_values=x, output_attentions=True), "attentions", None)
    finally:
        model.set_attn_implementation(before)
    return attentions[-1] if attentions else None


def _of_timm(model: Any, x: torch.Tensor) -> torch.Tensor | None:
    """Return the attention [B, heads, T, T] of the last block, or None if the model is not a plain ViT."""
    captured: list[torch.Tensor] = []
    blocks = getattr(model, "blocks", None)
    attention: Any = getattr(blocks[-1], "attn", None) if blocks else None
    if not hasattr(attention, "fused_attn") or not hasattr(attention, "attn_drop"):
        return None
    with _unfused(attention):
        # The input of the dropout is the softmax.
        handle = attention.attn_drop.register_forward_pre_hook(lambda _, args: captured.append(args[0]))
        try:
            model.forward_features(x)
        finally:
            handle.remove()
    return captured[-1] if captured else None


@contextmanager
def _unfused(attention: Any) -> Iterator[None]:
    """Disable the fused attention kernel."""
    before = attention.fused_attn
    attention.fused_attn = False
    try:
        yield
    finally:
        attention.fused_attn = before
