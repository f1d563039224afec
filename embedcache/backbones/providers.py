"""Dispatch to the providers, whose slow imports are deferred until they are needed."""

from pathlib import Path

import torch

from frostbench.embedcache.backbones.catalogue import TRANSFORMER
from frostbench.embedcache.backbones.preparation import Preparation
from frostbench.embedcache.backbones.tower import Loaded

PROVIDERS = ("bundled", "timm", "huggingface", "open_clip", "onnx")


def load_tower(
    provider: str, model: str, weights: Path | None, preparation: Preparation, device: torch.device
) -> Loaded:
    """Load a provider's model and its input configuration.

    Raises:
        ValueError: the provider or model does not exist, or the weights do not match the model.
        FileNotFoundError: the weights cannot be found or downloaded.
        ModuleNotFoundError: a package required by the provider is not installed.
    """
    if provider == "timm":
        from frostbench.embedcache.backbones.timm_models import load_timm

        return load_timm(model, weights)
    if provider == "huggingface":
        from frostbench.embedcache.backbones.huggingface import load_huggingface

        return load_huggingface(model, weights, preparation)
    if provider == "open_clip":
        from frostbench.embedcache.backbones.open_clip_models import load_open_clip

        return load_open_clip(model, weights)
    if provider == "onnx":
        from frostbench.embedcache.backbones.onnx_models import load_onnx

        return load_onnx(model, weights, preparation, device)
    return _load_bundled(provider, model, weights)


def _load_bundled(provider: str, model: str, weights: Path | None) -> Loaded:
    if provider != "bundled":
        raise ValueError(f"the provider must be one of {', '.join(PROVIDERS)}, got {provider!r}. Choose one of them.")
    if model == TRANSFORMER:
        from frostbench.embedcache.backbones.bundled_transformer import load_transformer

        return load_transformer(weights)
    if weights is not None:
        raise ValueError(
            f"bundled models include their weights, got {weights}. Leave weights out, or use provider timm."
        )
    from frostbench.embedcache.backbones.bundled import load_bundled

    return load_bundled(model)
