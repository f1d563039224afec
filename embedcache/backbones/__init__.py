"""Frozen backbones, one file per provider."""

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
    """Load a frozen model and resolve its recipes completely.

    Args:
        provider: "bundled", "timm", "huggingface", "open_clip" or "onnx".
        model: the provider's name of the model; docs/backbones.md has the forms.
        pooling: which vectors to store, in one pass: names as `frostbench.embedcache.backbones.pooling` describes them,
            among those that the model has. By default cls and patch_mean of vision transformers, avg of others,
            projection of open_clip, output of ONNX.
        size: side of the square, 32..8192 pixels; by default the model's own.
        weights: file or folder to take the weights from instead of the hub.
        device: where the model runs, such as "cpu" or "cuda"; see `resolve_device`.
        autocast: number type of matrix products: auto, float32, bfloat16 or float16; see `resolve_autocast`.
        alpha_background: RGB colour on which transparent pixels are composited.
        preparation: how images are made ready, where it is not to be as the provider says.
        compile: whether torch.compile makes the forward pass; slow at first, then often faster.

    Raises:
        ValueError: an argument is not one of its choices, or does not fit the model.
        FileNotFoundError: the weights cannot be had.
        ModuleNotFoundError: a package that the provider needs is not installed.
    """
    check_size(size)
    asked = preparation or Preparation()
    if size is not None:
        asked = asked.model_copy(update={"size": size})
    where = resolve_device(device)
    number_type = resolve_autocast(_own_type(provider, autocast), where, model)
    tower, config = load_tower(provider, model, weights, asked, where)
    given: dict[str, Any] = {"provider": provider, "model": model, "autocast": number_type}
    given |= {"alpha_background": alpha_background, "intensity_range": asked.intensity_range}
    return assemble(tower, asked.over(config), given, pooling=pooling, size=asked.size, device=where, compile=compile)


def _own_type(provider: str, autocast: str) -> str:
    """What was asked for, or float32 for ONNX, whose graphs fix their number types."""
    if provider != "onnx" or autocast not in ("auto", "bfloat16", "float16"):
        return autocast
    if autocast == "auto":
        return "float32"
    raise ValueError(
        f"the number types of an ONNX model stand in its graph, however: autocast={autocast!r} was asked for. Leave it "
        "out, or export the model in that type."
    )
