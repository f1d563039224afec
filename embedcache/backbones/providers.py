"""Which provider loads a model. Each one's library takes seconds to import, so it waits until it is asked for."""

from pathlib import Path

import torch

from frostbench.embedcache.backbones.preparation import Preparation
from frostbench.embedcache.backbones.tower import Loaded

PROVIDERS = ("bundled", "timm", "huggingface", "open_clip", "onnx")


def load_tower(provider: str, model: str, weights: Path | None, asked: Preparation, device: torch.device) -> Loaded:
    """A provider's model, and how it wants its images.

    Raises:
        ValueError: there is no such provider or model, or the weights do not fit it.
        FileNotFoundError: the weights cannot be had.
        ModuleNotFoundError: a package that the provider needs is not installed.
    """
    if provider == "timm":
        from frostbench.embedcache.backbones.timm_models import load_timm

        return load_timm(model, weights)
    if provider == "huggingface":
        from frostbench.embedcache.backbones.huggingface import load_huggingface

        return load_huggingface(model, weights, asked)
    if provider == "open_clip":
        from frostbench.embedcache.backbones.open_clip_models import load_open_clip

        return load_open_clip(model, weights)
    if provider == "onnx":
        from frostbench.embedcache.backbones.onnx_models import load_onnx

        return load_onnx(model, weights, asked, device)
    return _load_bundled(provider, model, weights)


def _load_bundled(provider: str, model: str, weights: Path | None) -> Loaded:
    if provider != "bundled":
        raise ValueError(
            f"the provider must be one of {', '.join(PROVIDERS)}, however: {provider!r} came. Choose one of them."
        )
    if weights is not None:
        raise ValueError(
            f"bundled models bring their weights, however: {weights} was given. Leave it out, or use timm."
        )
    from frostbench.embedcache.backbones.bundled import load_bundled

    return load_bundled(model)
