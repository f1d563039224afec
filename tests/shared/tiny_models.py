"""Tiny random models, every tensor away from its neutral value, so that none is left out unseen."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import open_clip
import torch
from safetensors.torch import save_file

DINOV3 = "vit_tiny_patch16_dinov3_qkvb"


def away_from_neutral(build: Callable[[], torch.nn.Module], by: float = 0.05) -> torch.nn.Module:
    """The model that is built, always with the same weights; variances move ten times as far as the rest."""
    torch.manual_seed(0)
    model = build()
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                tensor.add_(torch.rand_like(tensor) * (10 * by if name.endswith("var") else by))
    return model


def write_clip(folder: Path, config: Mapping[str, Any], preprocess: Mapping[str, Any]) -> Path:
    """A folder as open_clip's hub repositories are."""
    folder.mkdir(parents=True, exist_ok=True)
    told = json.dumps({"model_cfg": config, "preprocess_cfg": preprocess})
    (folder / "open_clip_config.json").write_text(told)
    own = json.loads(told)["model_cfg"]
    kind = open_clip.CustomTextCLIP if own.pop("custom_text", False) else open_clip.CLIP
    model = away_from_neutral(lambda: kind(**own), by=0.02)
    state = {name: tensor.clone().contiguous() for name, tensor in model.state_dict().items()}
    save_file(state, folder / "open_clip_model.safetensors")
    return folder
