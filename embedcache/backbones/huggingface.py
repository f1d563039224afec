"""DINOv2 and DINOv3 through transformers, from the hub or from a folder."""

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

# By model type: the name of the final normalisation, and whether the model is a vision transformer.
_KNOWN = {
    "dinov2": ("layernorm", True),
    "dinov2_with_registers": ("layernorm", True),
    "dinov3_vit": ("norm", True),
    "dinov3_convnext": ("layer_norm", False),
}


class HuggingFaceTower:
    """A DINO model of transformers.

    Vision transformers have cls, patch_mean, gem and tokens of `last_hidden_state`, register tokens left out. ConvNeXts
    put the mean of their map before its places and normalise all of them: avg is that mean, `pooler_output`; gem and
    tokens see the normalised places.
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
        """Of all tensors of the model."""
        return weights_sha256(self.model)

    def set_size(self, size: int) -> None:
        """Only a check: these models resample positions in each forward pass, and would drop part of a patch."""
        if self._is_transformer:
            patch = self.model.config.patch_size
            check_patches(size, (patch,) if isinstance(patch, int) else patch, self._name)

    def features(self, x: torch.Tensor, layers: Sequence[int]) -> Features:
        """`last_hidden_state`, and the normalised outputs of earlier blocks."""
        found = self.model(pixel_values=x, output_hidden_states=bool(layers))
        norm = self.model.get_submodule(self._norm)
        earlier: dict[int | str, torch.Tensor] = {layer: norm(found.hidden_states[layer]) for layer in layers}
        return {END: found.last_hidden_state, **earlier}

    def offer(self, features: Features) -> Offer:
        """By the kind of the model."""
        if self._is_transformer:
            default = ("cls", "patch_mean")
            return Offer((*default, "gem", "tokens"), default, self.model.config.num_hidden_layers)
        return Offer(("avg", "gem", "tokens"), ("avg",))

    def pool(self, features: Features, name: PoolingName) -> torch.Tensor:
        """Of tokens; the average of a ConvNeXt is its first."""
        value = features[name.layer or END]
        if name.pooling == "avg":
            return value[:, 0]
        return pool_tokens(value, self._prefix, name)


def load_huggingface(name: str, weights: Path | None, asked: Preparation) -> Loaded:
    """A model by its name on the hub or its folder, or by name with a folder that holds its files.

    Its `preprocessor_config.json` says how images are made ready, unless `asked` says all of it. Code that comes with a
    model is never run.

    Raises:
        ValueError: the model is of a kind that is not known here, lacks weights, or does not say what it needs.
        FileNotFoundError: the files are neither in a folder or the cache, nor can they be downloaded.
    """
    if weights is not None and not weights.is_dir():
        raise FileNotFoundError(
            f"a huggingface model's weights are a folder with config.json, however: {weights} is none. Is the path "
            "right? `hf download MODEL --local-dir FOLDER` fills one."
        )
    source = str(weights) if weights is not None else name
    try:
        model = _load_model(source)
        config = asked.config() if asked.is_complete else _read_config(source)
    except OSError as error:
        raise FileNotFoundError(
            f"the files of {name} must be in the Hugging Face cache, in a folder, or downloadable, however: "
            f"{type(error).__name__}: {first_line(error)} Either connect to the hub (for a gated repository such as "
            "Meta's DINOv3 accept the licence on its page and run `hf auth login`), or give a folder with config.json, "
            "model.safetensors and preprocessor_config.json by `--weights` (in Python `weights=`)."
        ) from error
    return HuggingFaceTower(model, name), config


def _load_model(source: str) -> Any:
    kind = _kind_of(source)
    if kind not in _KNOWN:
        raise ValueError(
            f"models of provider huggingface are of type {', '.join(_KNOWN)}, however: {source} is of type {kind!r}. "
            "Try provider timm or open_clip, or export it to ONNX."
        )
    attention = "sdpa" if _KNOWN[kind][1] else None
    model, told = AutoModel.from_pretrained(
        source,
        attn_implementation=attention,
        dtype=torch.float32,
        output_loading_info=True,
        trust_remote_code=False,
        weights_only=True,
    )
    missing = sorted(str(key) for key in (*told["missing_keys"], *told["mismatched_keys"]))
    if missing:
        raise ValueError(
            f"the weights must fit the model, however: {source} lacks {len(missing)} tensors of a {kind}, such as "
            f"{missing[:3]}, which would stay random. Give the checkpoint of exactly this model."
        )
    return model


def _kind_of(source: str) -> str:
    """The type of a model.

    Raises:
        ValueError: only code that comes with it could tell.
    """
    try:
        return str(AutoConfig.from_pretrained(source, trust_remote_code=False).model_type)
    except ValueError as error:
        raise ValueError(
            f"a model of provider huggingface is of a type that transformers knows, and no code that comes with it is "
            f"run, however: {source}: {first_line(error)} Try provider timm or open_clip, or export it to ONNX."
        ) from error


def _read_config(source: str) -> dict[str, Any]:
    """How a checkpoint wants its images.

    Raises:
        ValueError: it wants something that recipes do not know.
    """
    told = AutoImageProcessor.from_pretrained(source, trust_remote_code=False).to_dict()  # type: ignore[no-untyped-call]
    if not (told.get("do_resize") and told.get("do_rescale") and told.get("do_normalize")):
        raise _not_understood(source, "an image is to be left unresized, unscaled or unnormalised")
    if abs(255 * told["rescale_factor"] - 1) > 1e-6:
        raise _not_understood(source, f"pixels are to be multiplied by {told['rescale_factor']}")
    size, square = told["size"], told.get("crop_size") or {}
    side, crop = square.get("height", 0), told.get("do_center_crop")
    if size.get("shortest_edge") and crop and side == square.get("width"):
        resize, mode = size["shortest_edge"], "center"
    elif size.get("height") and size["height"] == size.get("width") and not (crop and side != size["height"]):
        resize, mode, side = size["height"], "squash", size["height"]
    else:
        raise _not_understood(source, f"sizes are {size} with crop {square if crop else None}")
    return {
        "input_size": (3, side, side),
        "crop_pct": fraction_for(side, resize),
        "crop_mode": mode,
        "interpolation": Image.Resampling(told["resample"]).name.lower(),
        "mean": three(told["image_mean"]),
        "std": three(told["image_std"]),
    }


def _not_understood(source: str, what: str) -> ValueError:
    return ValueError(
        f"preprocessor_config.json must describe a resize and crop to a square, then mean and std, however: in "
        f"{source} {what}. State size, crop, crop_fraction, interpolation, mean and std in a Preparation."
    )
