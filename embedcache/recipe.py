"""Recipes: everything that changes a stored vector, resolved before the first image, and its short hash."""

import hashlib
import json
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, Final, Literal, Self

import torch
from pydantic import AfterValidator, BaseModel, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from frostbench.embedcache.config import SETTINGS

Pixel = Annotated[int, Field(ge=0, le=255)]
Channels = tuple[float, float, float]


def _is_range(ends: tuple[float, float]) -> tuple[float, float]:
    if not ends[0] < ends[1]:
        raise ValueError(
            f"an intensity range goes from a lower to a higher value, however: {ends} came. Turn it round."
        )
    return ends


IntensityRange = Annotated[tuple[float, float], AfterValidator(_is_range)]
Pooling = Literal["cls", "patch_mean", "avg", "gem", "tokens", "projection", "output", "unknown"]
Crop = Literal["center", "squash", "border", "unknown"]
Interpolation = Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos", "unknown"]
Storage = Literal["float16", "float32"]
Autocast = Literal["float32", "bfloat16", "float16", "unknown"]

UNKNOWN: Final = "unknown"
_LIBRARIES = ("torch", "timm", "pillow", "numpy", "pyarrow")
# Fields that recipes did not always have, each None where it says nothing: left out then, so that the hashes and files
# of earlier recipes stay as they are.
_ADDED: Final = ("tag", "layer", "final_norm", "gem_p", "output", "prefix_tokens", "rope_periods", "intensity_range")


class Recipe(BaseModel):
    """The identity of one stored column: two vectors may be compared only if their recipes have the same hash.

    Every field is the value that was used, never "the default". A field is None or "unknown" only for vectors that
    came from elsewhere (`provider="external"`).

    >>> ours = Recipe(provider="external", model="mine", pooling="cls")
    >>> ours.hash == Recipe(provider="external", model="mine", pooling="avg").hash
    False

    Raises:
        pydantic.ValidationError: a field is unknown, out of its bounds, or left open though the provider is ours.
    """

    model_config = SETTINGS

    version: Literal[1] = 1
    """Raised when our own decoding, resizing or pooling starts to give other numbers for the same fields."""
    provider: Literal["bundled", "timm", "huggingface", "open_clip", "onnx", "external"]
    """Where the backbone's code and weights come from; external vectors were computed elsewhere."""
    model: str = Field(min_length=1, max_length=300)
    """The provider's name of the model."""
    weights_sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    """SHA-256 over the loaded tensors of the backbone without its classifier, wherever they were loaded from."""
    size: int | None = Field(default=None, ge=1, le=8192)
    """Side in pixels of the square that the backbone sees."""
    resize: int | None = Field(default=None, ge=1, le=16384)
    """Length in pixels to which the image is scaled before the crop: of the short side for crop center, of the long side for border, of both for squash."""  # noqa: E501
    crop: Crop = UNKNOWN
    """How the scaled image becomes a square: center cuts, squash ignores the aspect ratio, border pads."""
    crop_fraction: float | None = Field(default=None, gt=0, le=2)
    """The crop fraction that `resize` was computed from: resize = floor(size / crop_fraction)."""
    interpolation: Interpolation = UNKNOWN
    """The filter of the resize."""
    antialias: bool | None = None
    """Whether the filter widens when an image shrinks, as Pillow's always does."""
    resizer: Literal["pillow", "unknown"] = UNKNOWN
    """The library that resizes; others give other pixels for the same filter name."""
    decoder: Literal["pillow", "unknown"] = UNKNOWN
    """The library that decodes, under the rules of `frostbench.embedcache.decode`."""
    alpha_background: tuple[Pixel, Pixel, Pixel] | None = None
    """The RGB colour on which transparent pixels are composited."""
    mean: Channels | None = None
    """Subtracted from each RGB channel after scaling pixels to 0..1."""
    std: Channels | None = None
    """Divides each RGB channel after the mean was subtracted."""
    autocast: Autocast = UNKNOWN
    """The type in which matrix products and convolutions ran; weights and pooled vectors are float32."""
    pooling: Pooling = UNKNOWN
    """cls is the class token, patch_mean the mean of the patch tokens, avg the model's own average-pooled features, gem the generalised mean, tokens all patch tokens, projection the image embedding in the space shared with text, output the model's own vector."""  # noqa: E501
    normalised: bool | None = None
    """Whether each vector was scaled to length one before it was stored."""
    storage: Storage = "float16"
    """The type in which vectors are stored: float32 for imported ones of which float16 would lose too much."""
    view: str = Field(default="original", min_length=1, max_length=1000)
    """What was embedded: the image itself (original), or a view by a policy with all its settings and its seed."""
    reduction: Literal["none"] = "none"
    """How tokens were merged or dropped inside the backbone."""
    tag: str | None = Field(default=None, min_length=1, max_length=300)
    """The name of an open_clip model's pretrained weights, which brings its own preprocessing."""
    layer: int | None = Field(default=None, ge=-500, le=-2)
    """Which block's output was pooled, counted from the end: -2 is the last but one; None is the model's own end."""
    final_norm: bool | None = None
    """Whether the model's final normalisation was applied to an earlier layer; None for the model's own end."""
    gem_p: float | None = Field(default=None, ge=1, le=100)
    """The exponent of the generalised mean."""
    output: str | None = Field(default=None, min_length=1, max_length=300)
    """The name of the output, where the model has named ones."""
    prefix_tokens: int | None = Field(default=None, ge=0, le=1000)
    """How many class and register tokens stand before the patch tokens and are left out of their mean."""
    rope_periods: Literal["float32", "bfloat16"] | None = None
    """The number type in which the periods of rotary position embeddings are held, where the provider fixes it."""

    intensity_range: IntensityRange | None = None
    """The grey values of images of more than 8 bits that become 0 and 255; None takes all 16 bits."""

    @model_validator(mode="after")
    def _is_resolved(self) -> Self:
        left = unknown_fields(self)
        if self.provider != "external" and left:
            raise ValueError(
                f"a recipe of provider {self.provider!r} must be resolved completely, however: {', '.join(left)} "
                "is open. Only vectors imported as 'external' may have unknown fields."
            )
        return self

    @model_serializer(mode="wrap")
    def _without_idle_fields(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        tree: dict[str, Any] = handler(self)
        return {name: value for name, value in tree.items() if name not in _ADDED or value is not None}

    @property
    def hash(self) -> str:
        """The first 12 hex digits of the SHA-256 of the fields as key-sorted JSON, as `model_dump` gives them."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def unknown_fields(recipe: Recipe) -> list[str]:
    """The fields of a recipe that nobody knows, in field order.

    >>> unknown_fields(Recipe(provider="external", model="mine"))[:2]
    ['weights_sha256', 'size']
    """
    asked = [name for name in Recipe.model_fields if name not in _ADDED]
    return [name for name in asked if getattr(recipe, name) in (None, UNKNOWN)]


def differences(first: Recipe, second: Recipe) -> dict[str, tuple[Any, Any]]:
    """The fields in which two recipes differ, with both values.

    >>> differences(Recipe(provider="external", model="a"), Recipe(provider="external", model="b"))
    {'model': ('a', 'b')}
    """
    pairs = {name: (getattr(first, name), getattr(second, name)) for name in Recipe.model_fields}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def provenance(device: torch.device, libraries: Sequence[str] = ()) -> dict[str, str]:
    """What else may move the low bits: library versions and the device. A difference warns; it does not refuse.

    Args:
        device: where the model runs.
        libraries: names of distributions that count besides those every backbone uses.
    """
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    found = {"device": f"{device.type} ({name})", "python": platform.python_version()}
    return found | _versions((*_LIBRARIES, *libraries))


def _versions(names: Sequence[str]) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
