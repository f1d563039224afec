"""Frozen backbones, one file per provider."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from embedcache.backbones.backbone import Backbone as Backbone
from embedcache.backbones.backbone import NotFiniteError as NotFiniteError
from embedcache.backbones.backbone import resolve_autocast
from embedcache.backbones.backbone import resolve_device as resolve_device
from embedcache.backbones.folding import fold_batch_norms
from embedcache.backbones.pooling import choose_pooling, make_pool
from embedcache.backbones.sizing import check_size, probe, set_size
from embedcache.preprocess import resize_length
from embedcache.recipe import Recipe


def load_backbone(
    provider: str,
    model: str,
    *,
    pooling: Sequence[str] = (),
    size: int | None = None,
    weights: Path | None = None,
    device: str = "cpu",
    autocast: str = "auto",
    alpha_background: tuple[int, int, int] = (255, 255, 255),
) -> Backbone:
    """Load a frozen model and resolve its recipes completely.

    Args:
        provider: "bundled" or "timm".
        model: the provider's name of the model.
        pooling: which vectors to store, in one pass; by default all the model has: cls and patch_mean of vision
            transformers, avg of others.
        size: side of the square, 32..8192 pixels; by default the model's own.
        weights: file to take the weights from instead of the hub (timm only).
        device: where the model runs, such as "cpu" or "cuda"; see `resolve_device`.
        autocast: number type of matrix products: auto, float32, bfloat16 or float16; see `resolve_autocast`.
        alpha_background: RGB colour on which transparent pixels are composited.

    Raises:
        ValueError: an argument is not one of its choices, or does not fit the model.
        FileNotFoundError: the weights cannot be had.
        ModuleNotFoundError: the package with bundled weights is not installed.
    """
    check_size(size)
    where = resolve_device(device)
    number_type = resolve_autocast(autocast, where, model)
    network, config = _load(provider, model, weights)
    given = {"provider": provider, "model": model, "autocast": number_type, "alpha_background": alpha_background}
    return _assemble(network, config, given, pooling, size, where)


def _assemble(
    network: nn.Module,
    config: dict[str, Any],
    given: dict[str, Any],
    pooling: Sequence[str],
    size: int | None,
    where: torch.device,
) -> Backbone:
    """Give a loaded network its size, device and pooling, and resolve what was not given."""
    model = given["model"]
    # Before the size is set, so that one checkpoint has one hash, whatever its position embeddings are resampled to.
    sha256 = weights_sha256(network)
    side = size if size is not None else _own_size(config, model)
    set_size(network, side, model)
    if given["provider"] == "bundled" and given["autocast"] == "float32":
        fold_batch_norms(network)
    network = network.eval().requires_grad_(False).to(where).to(memory_format=torch.channels_last)
    features = probe(network, side, model)
    poolings = choose_pooling(network, features, pooling, model)
    pool = make_pool(network, poolings)
    with torch.inference_mode():
        dims = {name: int(vectors.shape[1]) for name, vectors in pool(features).items()}
    shared = _resolved_input(config, side) | given | {"weights_sha256": sha256}
    recipes: dict[str, Recipe] = {name: Recipe(**shared, pooling=name) for name in poolings}
    return Backbone(network, pool, recipes, dims, where, torch.channels_last)


def _load(provider: str, model: str, weights: Path | None) -> tuple[nn.Module, dict[str, Any]]:
    # A provider's library takes seconds to import, so it waits until the provider is asked for.
    if provider == "timm":
        from embedcache.backbones.timm_models import load_timm

        return load_timm(model, weights)
    if provider != "bundled":
        raise ValueError(f"the provider must be bundled or timm, however: {provider!r} came. Choose one of them.")
    if weights is not None:
        raise ValueError(
            f"bundled models bring their weights, however: {weights} was given. Leave it out, or use timm."
        )
    from embedcache.backbones.bundled import load_bundled

    return load_bundled(model)


def _own_size(config: dict[str, Any], model: str) -> int:
    channels, height, width = config["input_size"]
    if channels != 3 or height != width:
        raise ValueError(
            f"images are embedded as RGB squares, however: {model} takes {channels} channels of {height} x {width}. "
            "Give a size that it accepts, or choose another model."
        )
    return int(height)


def _resolved_input(config: dict[str, Any], size: int) -> dict[str, Any]:
    """The fields of a recipe that say how an image becomes numbers."""
    return {
        "size": size,
        "resize": resize_length(size, config["crop_pct"]),
        "crop": config["crop_mode"],
        "crop_fraction": config["crop_pct"],
        "interpolation": config["interpolation"],
        "antialias": True,
        "resizer": "pillow",
        "decoder": "pillow",
        "mean": config["mean"],
        "std": config["std"],
        "normalised": False,
    }


def weights_sha256(model: nn.Module) -> str:
    """SHA-256 over the tensors of a loaded model, sorted by name: name, type, shape and bytes of each.

    The hash is taken after loading and without the classifier, so that it does not depend on the file format, the place
    or the classifier that the weights came with.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
