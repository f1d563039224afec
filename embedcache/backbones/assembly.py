"""From a provider's model to a backbone: its size, device, poolings and recipes."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from frostbench.embedcache.backbones.backbone import Backbone, Forward, refuse_float16
from frostbench.embedcache.backbones.batchnorm_folding import fold_batch_norms
from frostbench.embedcache.backbones.pooling import PoolingName, choose_poolings
from frostbench.embedcache.backbones.preparation import own_size, resolved_input
from frostbench.embedcache.backbones.same_padding import pad_within_convolutions
from frostbench.embedcache.backbones.sizing import first_line
from frostbench.embedcache.backbones.tower import Features, Tower
from frostbench.embedcache.recipe import Recipe


def assemble(
    tower: Tower,
    config: dict[str, Any],
    given: dict[str, Any],
    *,
    pooling: Sequence[str],
    size: int | None,
    device: torch.device,
    compile: bool,
) -> Backbone:
    """Give a loaded model its size, device and poolings, and resolve what was not given.

    Args:
        tower: a provider's model.
        config: how it wants its images.
        given: fields of the recipes that are known already.
        pooling: names, or none for the model's default.
        size: side of the square, or None for the model's own.
        device: where the model runs.
        compile: whether torch.compile makes the forward pass.

    Raises:
        ValueError: the model lacks a pooling, cannot take the size, or cannot be compiled.
    """
    model, side = given["model"], size if size is not None else own_size(config, given["model"])
    sha256 = _fit(tower, given, side, device)
    black = torch.zeros(1, 3, side, side, device=device).contiguous(memory_format=torch.channels_last)
    offer = tower.offer(_probe(partial(tower.features, layers=()), black, model))
    names = choose_poolings(pooling, offer.available, offer.default, offer.depth, model)
    forward = _forward(tower, names, black, model, compile)
    features = {key: value.float() for key, value in _probe(forward, black, model).items()}
    with torch.inference_mode():
        vectors = {str(name): tower.pool(features, name) for name in names}
    shared = resolved_input(config, side) | given | {"weights_sha256": sha256} | dict(tower.facts)
    return Backbone(
        tower,
        forward,
        poolings={str(name): name for name in names},
        recipes={str(name): Recipe(**shared | name.fields()) for name in names},
        dims={column: int(value.shape[-1]) for column, value in vectors.items()},
        tokens={column: int(value.shape[1]) for column, value in vectors.items() if value.ndim == 3},
        device=device,
        compiled=compile,
    )


def _fit(tower: Tower, given: dict[str, Any], side: int, device: torch.device) -> str:
    """Freeze the model, and give it its size and device; returns the hash of its weights."""
    if given["autocast"] == "float16" and tower.half_breaks:
        refuse_float16(given["model"])
    # Before the size is set, so that one checkpoint has one hash, whatever its position embeddings are resampled to.
    sha256 = tower.sha256()
    tower.set_size(side)
    if given["provider"] == "bundled":
        fold_batch_norms(tower.model)
    if device.type == "cpu":
        pad_within_convolutions(tower.model)
    tower.model.eval().requires_grad_(False).to(device).to(memory_format=torch.channels_last)
    return sha256


def _forward(tower: Tower, names: Sequence[PoolingName], black: torch.Tensor, model: str, compile: bool) -> Forward:
    layers = tuple(sorted({name.layer for name in names if name.layer is not None}))
    forward: Forward = partial(tower.features, layers=layers)
    if not compile:
        return forward
    compiled: Forward = torch.compile(forward)
    try:
        with torch.inference_mode():
            compiled(black)
    # A compiler that is missing or does not know an operation raises nearly anything.
    except Exception as error:
        raise ValueError(
            f"a compiled forward pass needs a model and a compiler that torch.compile can use, however: {model} gave "
            f"{type(error).__name__}: {first_line(error)} Leave compile out."
        ) from error
    return compiled


def _probe(forward: Forward, black: torch.Tensor, model: str) -> Features:
    """The features of one black image [1, 3, S, S].

    Raises:
        ValueError: the model cannot take this size.
    """
    try:
        with torch.inference_mode():
            return forward(black)
    except (RuntimeError, AssertionError, ValueError) as error:
        raise ValueError(
            f"the model must take colour images of {black.shape[2]} x {black.shape[3]} pixels, however: {model} says: "
            f"{first_line(error)} Choose another size."
        ) from error
