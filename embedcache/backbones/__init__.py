"""Loading of frozen backbones, with one file per provider."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from frostbench.embedcache.backbones.assembly import assemble
from frostbench.embedcache.backbones.backbone import Backbone as Backbone
from frostbench.embedcache.backbones.backbone import NotFiniteError as NotFiniteError
from frostbench.embedcache.backbones.backbone import resolve_autocast
from frostbench.embedcache.backbones.backbone import resolve_device as resolve_device
from frostbench.embedcache.backbones.hashing import weights_sha256 as weights_sha256
from frostbench.embedcache.backbones.preparation import Preparation as Preparation
from frostbench.embedcache.backbones.providers import load_tower
from frostbench.embedcache.backbones.sizing import check_size


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
    preparation: Preparation | None = None,
    compile: bool = False,
) -> Backbone:
    """Load a frozen model and resolve all fields of its recipes.

    Args:
        provider: "bundled", "timm", "huggingface", "open_clip" or "onnx".
        model: name of the model at the provider; docs/backbones.md lists the forms.
        pooling: names of the poolings to store, all from one forward pass, in the syntax of
            `frostbench.embedcache.backbones.pooling`. The default is cls and patch_mean for vision transformers, avg
            for other models, projection for open_clip, and every output for ONNX.
        size: side of the square input, 32..8192 pixels; None uses the model's own.
        weights: file or folder to load the weights from instead of the hub.
        device: device to run on, such as "cpu" or "cuda"; see `resolve_device`.
        autocast: number type of matrix products: auto, float32, bfloat16 or float16; see `resolve_autocast`.
        alpha_background: RGB colour on which transparent pixels are composited.
        preparation: resize, crop and normalisation that override those of the provider.
        compile: whether to compile the forward pass with torch.compile, which is slow at first, then often faster.

    Raises:
        ValueError: an argument is not one of its choices, or does not fit the model.
        FileNotFoundError: the weights cannot be found or downloaded.
        ModuleNotFoundError: a package required by the provider is not installed.
    """
    check_size(size)
    overrides = preparation or Preparation()
    if size is not None:
        overrides = overrides.model_copy(update={"size": size})
    target = resolve_device(device)
    number_type = resolve_autocast(_autocast_for(provider, autocast), target, model)
    tower, config = load_tower(provider, model, weights, overrides, target)
    fields: dict[str, Any] = {"provider": provider, "model": model, "autocast": number_type}
    fields |= {"alpha_background": alpha_background, "intensity_range": overrides.intensity_range}
    config = overrides.over(config)
    return assemble(tower, config, fields, pooling=pooling, size=overrides.size, device=target, compile=compile)


def _autocast_for(provider: str, autocast: str) -> str:
    """Return the requested type; for ONNX, whose graphs fix their number types, auto becomes float32."""
    if provider != "onnx" or autocast not in ("auto", "bfloat16", "float16"):
        return autocast
    if autocast == "auto":
        return "float32"
    raise ValueError(
        f"the number type of an ONNX model is fixed in its graph, got autocast={autocast!r}. Leave autocast out, or "
        "export the model in that type."
    )
