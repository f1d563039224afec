"""Models to measure extraction with, as our backbone and in the form that other tools take."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import timm
import timm.data
import torch
from torch import nn

from frostbench.embedcache.backbones import Backbone, load_backbone
from frostbench.embedcache.backbones.bundled import load_classifier

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Subject:
    """A model on one device, for our extraction and for other tools.

    Attributes:
        backbone: our backbone, with one column.
        model: timm's model with the same weights and no classifier; its parameters are not marked as frozen.
        architecture: timm's name.
        config: timm's data configuration of the model; equal to the backbone's recipe.
    """

    backbone: Backbone
    model: nn.Module
    architecture: str
    config: Mapping[str, Any]

    @property
    def column(self) -> str:
        """Name of the column."""
        return next(iter(self.backbone.dims))

    def transform(self) -> Callable[..., torch.Tensor]:
        """Return timm's evaluation transform, from an image to normalised numbers [3, S, S]."""
        transform: Callable[..., torch.Tensor] = timm.data.create_transform(**self.config, is_training=False)
        return transform


def bundled(name: str, autocast: str = "auto") -> Subject:
    """Load a bundled model on the CPU."""
    backbone, model = load_backbone("bundled", name, autocast=autocast), load_classifier(name)
    model.reset_classifier(0)  # type: ignore[operator]
    return Subject(backbone, model, f"tf_{name}", _config(model, backbone.recipe.size))


def random_timm(name: str, size: int, folder: Path, device: str = "cpu", autocast: str = "auto") -> Subject:
    """Build a timm model with random weights, saved to a file in `folder`, with timm's own pooling."""
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=0)
    weights = folder / f"{name}.pth"
    torch.save(model.state_dict(), weights)
    pooling = "patch_mean" if getattr(model, "num_prefix_tokens", 0) else "avg"
    backbone = load_backbone(
        "timm", name, weights=weights, size=size, pooling=[pooling], device=device, autocast=autocast
    )
    if hasattr(model, "set_input_size"):
        model.set_input_size(img_size=(size, size))
    return Subject(backbone, model.eval().to(device), name, _config(model, size))


def number_type(subject: Subject) -> torch.autocast:
    """Return an autocast context with the number type of our backbone, for other tools."""
    dtype = _DTYPES[subject.backbone.recipe.autocast]
    return torch.autocast(subject.backbone.device.type, dtype=dtype, enabled=dtype != torch.float32)


def _config(model: nn.Module, size: int | None) -> Mapping[str, Any]:
    config = timm.data.resolve_model_data_config(model)
    return MappingProxyType(config | {"input_size": (3, size, size)})
