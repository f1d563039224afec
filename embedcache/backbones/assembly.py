"""Assembly of a backbone from a provider's model: size, device, poolings and recipes."""

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
    fields: dict[str, Any],
    *,
    pooling: Sequence[str],
    size: int | None,
    device: torch.device,
    compile: bool,
) -> Backbone:
    """Set size, device and poolings of a loaded model, and resolve its recipes.

    Args:
        tower: model of a provider.
        config: its input configuration.
        fields: recipe fields that are already known.
        pooling: pooling names; empty for the model's default.
        size: side of the square input; None for the model's own.
        device: device to run on.
        compile: whether to compile the forward pass with torch.compile.

    Raises:
        ValueError: the model lacks a pooling, does not accept the size, or cannot be compiled.
    """
    model, side = fields["model"], size if size is not None else own_size(config, fields["model"])
    sha256 = _fit(tower, fields, side, device)
    black = torch.zeros(1, 3, side, side, device=device).contiguous(memory_format=torch.channels_last)
    offer = tower.offer(_probe(partial(tower.features, layers=()), black, model))
    names = choose_poolings(pooling, offer.available, offer.default, offer.depth, model)
    forward = _forward(tower, names, black, model, compile)
    features = {key: value.float() for key, value in _probe(forward, black, model).items()}
    with torch.inference_mode():
        vectors = {str(name): tower.pool(features, name) for name in names}
    shared = resolved_input(config, side) | fields | {"weights_sha256": sha256} | dict(tower.facts)
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


def _fit(tower: Tower, fields: dict[str, Any], side: int, device: torch.device) -> str:
    """Freeze the model, set its size and device, and return the hash of its weights."""
    if fields["autocast"] == "float16" and tower.half_breaks:
        refuse_float16(fields["model"])
    # Computed before the size is set, so that resampled position embeddings do not change a checkpoint's hash.
    sha256 = tower.sha256()
    tower.set_size(side)
    if fields["provider"] == "bundled":
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
    # A missing compiler or an unsupported operation raises almost any exception.
    except Exception as error:
        raise ValueError(
            f"compile requires a model and a compiler supported by torch.compile, but compiling {model} failed "
            f"({type(error).__name__}: {first_line(error)}). Leave compile out."
        ) from error
    return compiled


def _probe(forward: Forward, black: torch.Tensor, model: str) -> Features:
    """Return the features of one black image [1, 3, S, S]; raise ValueError if the model does not accept its size."""
    try:
        with torch.inference_mode():
            return forward(black)
    except (RuntimeError, AssertionError, ValueError) as error:
        raise ValueError(
            f"the model must accept colour images of {black.shape[2]} x {black.shape[3]} pixels, but {model} does not "
            f"({first_line(error)}). Choose another size."
        ) from error
