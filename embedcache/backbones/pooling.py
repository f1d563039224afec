"""From a timm model's features to vectors: which poolings a model has, and how each is computed."""

from collections.abc import Sequence
from typing import get_args

import torch
from torch import nn

from embedcache.backbones.backbone import Pool
from embedcache.recipe import Pooling

_AVERAGE = ("avg", "fast", "fastavg")


def choose_pooling(model: nn.Module, features: torch.Tensor, wanted: Sequence[str], name: str) -> tuple[Pooling, ...]:
    """The poolings to store: those that were asked for, or all that the model has.

    Models that give tokens [B, T, D] have patch_mean, and cls if there is a class token; models that give maps
    [B, C, H, W] or [B, H, W, C] have avg if their own pooling is the average.

    Args:
        model: a timm model.
        features: what its forward_features gives.
        wanted: names of poolings, or none for all.
        name: of the model, for messages.

    Raises:
        ValueError: the model lacks a pooling, one is asked for twice, or its features are of an unknown kind.
    """
    available = _available(model, features, name)
    missing = [pooling for pooling in wanted if pooling not in available]
    if missing or len(set(wanted)) != len(wanted):
        raise ValueError(
            f"{name} has the poolings {', '.join(available)}, each of which can be stored once, however: "
            f"{', '.join(wanted)} was asked for. Choose among those that it has, or none for all."
        )
    return tuple(pooling for pooling in available if not wanted or pooling in wanted)


def make_pool(model: nn.Module, poolings: Sequence[str]) -> Pool:
    """A function from features to one float32 matrix [B, D] for each pooling.

    cls is token 0 and patch_mean the mean over the tokens behind the prefix (class, registers), each followed by the
    model's fc_norm if it has one, as in models that normalise after pooling. avg is timm's
    `forward_head(features, pre_logits=True)`: the global average, then whatever the model has before its classifier.
    """
    prefix = int(getattr(model, "num_prefix_tokens", 0))
    fc_norm = getattr(model, "fc_norm", None) or nn.Identity()

    def pool(features: torch.Tensor) -> dict[str, torch.Tensor]:
        if features.ndim == 4:
            return {"avg": model.forward_head(features, pre_logits=True).flatten(1)}  # type: ignore[operator]
        tokens = {"cls": lambda: features[:, 0], "patch_mean": lambda: features[:, prefix:].mean(dim=1)}
        return {name: fc_norm(tokens[name]()) for name in poolings}

    return pool


def _available(model: nn.Module, features: torch.Tensor, name: str) -> tuple[Pooling, ...]:
    if isinstance(features, torch.Tensor) and features.ndim == 3:
        class_token = getattr(model, "cls_token", None) is not None
        if not class_token:
            return ("patch_mean",)
        # Without this number it is unknown where class and register tokens end.
        if hasattr(model, "num_prefix_tokens"):
            return ("cls", "patch_mean")
    if isinstance(features, torch.Tensor) and features.ndim == 4 and _own_pooling(model) in _AVERAGE:
        return ("avg",)
    shape = list(features.shape) if isinstance(features, torch.Tensor) else type(features).__name__
    raise ValueError(
        f"a backbone must give tokens with a stated prefix, or maps that it pools by their average, however: {name} "
        f"gives {shape} with pooling {_own_pooling(model)!r}. None of {', '.join(get_args(Pooling)[:3])} can be taken "
        "from it; choose another model."
    )


def _own_pooling(model: nn.Module) -> str:
    """The name of the model's own global pooling, "unknown" where timm does not say it."""
    for holder in (model, getattr(model, "head", None)):
        pooling = getattr(holder, "global_pool", None)
        name = pooling if isinstance(pooling, str) else getattr(pooling, "pool_type", None)
        if isinstance(name, str):
            return name
    return "unknown"
