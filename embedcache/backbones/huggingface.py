"""DINOv2 and DINOv3 models of transformers, from the hub or from a folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from transformers import AutoConfig, AutoImageProcessor, AutoModel

from frostbench.embedcache.backbones.hashing import weights_sha256
from frostbench.embedcache.backbones.pooling import PoolingName, pool_tokens
from frostbench.embedcache.backbones.preparation import Preparation, fraction_for, three
from frostbench.embedcache.backbones.sizing import check_patches, first_line
from frostbench.embedcache.backbones.tower import END, Features, Loaded, Offer
from frostbench.embedcache.counting import things

# Name of the final normalisation and whether the model is a vision transformer, by model type.
_KNOWN = {
    "dinov2": ("layernorm", True),
    "dinov2_with_registers": ("layernorm", True),
    "dinov3_vit": ("norm", True),
    "dinov3_convnext": ("layer_norm", False),
}


class HuggingFaceTower:
    """DINO model of transformers.

    Vision transformers have cls, patch_mean, gem and tokens, taken from `last_hidden_state` without register tokens.
    ConvNeXts prepend the mean of the feature map to its positions and normalise them all: avg is that normalised mean
    (`pooler_output`); gem and tokens use the normalised positions.
    """

    def __init__(self, model: Any, name: str) -> None:
        kind = model.config.model_type
        norm, self._is_transformer = _KNOWN[kind]
        self.model = model
        self.libraries: Sequence[str] = ("transformers",)
        self.half_breaks = kind.startswith("dinov3")
        self._name = name
        self._norm = norm
        self._prefix = 1 + getattr(model.config, "num_register_tokens", 0) if self._is_transformer else 1
        periods = {"rope_periods": "float32"} if kind == "dinov3_vit" else {}
        self.facts: Mapping[str, Any] = {"prefix_tokens": self._prefix, **periods} if self._is_transformer else {}

    def sha256(self) -> str:
        """Return the hash of all tensors of the model."""
        return weights_sha256(self.model)

    def set_size(self, size: int) -> None:
        """Check that the size is a multiple of the patch size; the forward pass would silently drop partial patches."""
        if self._is_transformer:
            patch = self.model.config.patch_size
            check_patches(size, (patch,) if isinstance(patch, int) else patch, self._name)

    def features(self, x: torch.Tensor, layers: Sequence[int]) -> Features:
        """Return `last_hidden_state` and the normalised outputs of earlier blocks."""
        output = self.model(pixel_values=x, output_hidden_states=bool(layers))
        norm = self.model.get_submodule(self._norm)
        earlier: dict[int | str, torch.Tensor] = {layer: norm(output.hidden_states[layer]) for layer in layers}
        return {END: output.last_hidden_state, **earlier}

    def offer(self, features: Features) -> Offer:
        """Return the poolings of the model type."""
        if self._is_transformer:
            default = ("cls", "patch_mean")
            return Offer((*default, "gem", "tokens"), default, self.model.config.num_hidden_layers)
        return Offer(("avg", "gem", "tokens"), ("avg",))

    def pool(self, features: Features, name: PoolingName) -> torch.Tensor:
        """Pool the tokens; the average of a ConvNeXt is its first token."""
        value = features[name.layer or END]
        if name.pooling == "avg":
            return value[:, 0]
        return pool_tokens(value, self._prefix, name)


def load_huggingface(name: str, weights: Path | None, preparation: Preparation) -> Loaded:
    """Load a model by its name on the hub or its folder; with `weights`, its files come from that folder.

    Images are prepared as stated in its `preprocessor_config.json`, unless `preparation` is complete. Code that comes
    with a model is never run.

    Raises:
        ValueError: the model type or the preprocessing is not supported, or the weights lack tensors.
        FileNotFoundError: the files are neither in the folder or the cache nor downloadable.
    """
    if weights is not None and not weights.is_dir():
        raise FileNotFoundError(
            f"weights of a huggingface model must be a folder with config.json, but {weights} is not a folder. Check "
            "the path, or fill a folder with `hf download MODEL --local-dir FOLDER`."
        )
    source = str(weights) if weights is not None else name
    try:
        model = _load_model(source)
        config = preparation.config() if preparation.is_complete else _read_config(source)
    except OSError as error:
        raise FileNotFoundError(
            f"the files of {name} must be in the Hugging Face cache, in a folder, or downloadable, but loading failed "
            f"({type(error).__name__}: {first_line(error)}). Connect to the hub (for a gated repository such as Meta's "
            "DINOv3, accept the licence on its page and run `hf auth login`), or name a folder with config.json, "
            "model.safetensors and preprocessor_config.json by `--weights` (in Python `weights=`)."
        ) from error
    return HuggingFaceTower(model, name), config


def _load_model(source: str) -> Any:
    kind = _kind_of(source)
    if kind not in _KNOWN:
        raise ValueError(
            f"a model of provider huggingface must be of type {', '.join(_KNOWN)}, but {source} is of type {kind!r}. "
            "Try provider timm or open_clip, or export the model to ONNX."
        )
    attention = "sdpa" if _KNOWN[kind][1] else None
    model, info = AutoModel.from_pretrained(
        source,
        attn_implementation=attention,
        dtype=torch.float32,
        output_loading_info=True,
        trust_remote_code=False,
        weights_only=True,
    )
    missing = sorted(str(key) for key in (*info["missing_keys"], *info["mismatched_keys"]))
    if missing:
        tensors = things(len(missing), "tensor", "tensors")
        raise ValueError(
            f"the weights must match the model, but {source} lacks {tensors} of a {kind} or has another shape there, "
            f"such as {missing[:3]}, which would stay random. Use the checkpoint of exactly this model."
        )
    return model


def _kind_of(source: str) -> str:
    """Return the model type; raise ValueError if it is defined only by code that comes with the model."""
    try:
        return str(AutoConfig.from_pretrained(source, trust_remote_code=False).model_type)
    except ValueError as error:
        raise ValueError(
            "a model of provider huggingface must be of a type known to transformers, because code that comes with a "
            f"model is not run, but {source} is not ({first_line(error)}). Try provider timm or open_clip, or export "
            "the model to ONNX."
        ) from error


def _read_config(source: str) -> dict[str, Any]:
    """Read the input configuration of a checkpoint; raise ValueError if recipes cannot express it."""
    processor = AutoImageProcessor.from_pretrained(source, trust_remote_code=False).to_dict()  # type: ignore[no-untyped-call]
    if off := [step for step in ("do_resize", "do_rescale", "do_normalize") if not processor.get(step)]:
        raise _not_understood(source, f"these steps are switched off: {', '.join(off)}")
    if abs(255 * processor["rescale_factor"] - 1) > 1e-6:
        raise _not_understood(source, f"the rescale factor is {processor['rescale_factor']}")
    size, square = processor["size"], processor.get("crop_size") or {}
    side, crop = square.get("height", 0), processor.get("do_center_crop")
    if size.get("shortest_edge") and crop and side == square.get("width"):
        resize, mode = size["shortest_edge"], "center"
    elif size.get("height") and size["height"] == size.get("width") and not (crop and side != size["height"]):
        resize, mode, side = size["height"], "squash", size["height"]
    else:
        raise _not_understood(source, f"the size is {size} with crop {square if crop else None}")
    return {
        "input_size": (3, side, side),
        "crop_pct": fraction_for(side, resize),
        "crop_mode": mode,
        "interpolation": Image.Resampling(processor["resample"]).name.lower(),
        "mean": three(processor["image_mean"]),
        "std": three(processor["image_std"]),
    }


def _not_understood(source: str, what: str) -> ValueError:
    return ValueError(
        "preprocessor_config.json must describe a resize and crop to a square, then mean and std, but in "
        f"{source} {what}. State size, crop, crop_fraction, interpolation, mean and std in a Preparation."
    )
