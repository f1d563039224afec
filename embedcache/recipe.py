"""Recipes: all settings that affect a stored vector, resolved before the first image, and their short hash."""

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
            f"the first value of an intensity range must be less than the second, got {ends}. Give the lower one first."
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
# Fields added later. They are omitted if None, so that hashes and files of earlier recipes stay valid.
_ADDED: Final = ("tag", "layer", "final_norm", "gem_p", "output", "prefix_tokens", "rope_periods", "intensity_range")


class Recipe(BaseModel):
    """Identity of one stored column: vectors may be compared only if their recipes have the same hash.

    Every field states the value that was used, never "the default". Fields that are always set for embedded images may
    be None or "unknown" only for imported vectors (`provider="external"`).

    >>> ours = Recipe(provider="external", model="mine", pooling="cls")
    >>> ours.hash == Recipe(provider="external", model="mine", pooling="avg").hash
    False

    Raises:
        pydantic.ValidationError: a field is unknown, out of bounds, or missing for a provider other than "external".
    """

    model_config = SETTINGS

    version: Literal[1] = 1
    """Version of Frostbench's decoding, resizing and pooling; raised when they change the numbers for equal fields."""
    provider: Literal["bundled", "timm", "huggingface", "open_clip", "onnx", "external"]
    """Source of the backbone's code and weights; external vectors were computed outside Frostbench."""
    model: str = Field(min_length=1, max_length=300)
    """Name of the model at its provider."""
    weights_sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    """SHA-256 of the backbone's tensors without the classifier, independent of the file they were loaded from."""
    size: int | None = Field(default=None, ge=1, le=8192)
    """Side in pixels of the backbone's square input."""
    resize: int | None = Field(default=None, ge=1, le=16384)
    """Length in pixels to which the image is scaled before the crop: of the short side for crop center, of the long side for border, of both for squash."""  # noqa: E501
    crop: Crop = UNKNOWN
    """How the scaled image becomes a square: center crops, squash ignores the aspect ratio, border pads."""
    crop_fraction: float | None = Field(default=None, gt=0, le=2)
    """Crop fraction from which `resize` was computed: resize = floor(size / crop_fraction)."""
    interpolation: Interpolation = UNKNOWN
    """Resampling filter of the resize."""
    antialias: bool | None = None
    """Whether the filter is widened when an image is downscaled, as Pillow always does."""
    resizer: Literal["pillow", "unknown"] = UNKNOWN
    """Library that resizes; other libraries give different pixels for the same filter name."""
    decoder: Literal["pillow", "unknown"] = UNKNOWN
    """Library that decodes, under the rules of `frostbench.embedcache.decode`."""
    alpha_background: tuple[Pixel, Pixel, Pixel] | None = None
    """RGB colour on which transparent pixels are composited."""
    mean: Channels | None = None
    """Value subtracted from each RGB channel after scaling pixels to 0..1."""
    std: Channels | None = None
    """Value by which each RGB channel is divided after the mean was subtracted."""
    autocast: Autocast = UNKNOWN
    """Number type of matrix products and convolutions; weights and pooled vectors are float32."""
    pooling: Pooling = UNKNOWN
    """cls is the class token, patch_mean the mean of the patch tokens, avg the model's own average-pooled features, gem the generalised mean, tokens all patch tokens, projection the image embedding in the space shared with text, output the model's own vector."""  # noqa: E501
    normalised: bool | None = None
    """Whether each vector was scaled to length one before it was stored."""
    storage: Storage = "float16"
    """Number type of stored vectors: float16, or float32 for imported vectors that would lose too much precision."""
    view: str = Field(default="original", min_length=1, max_length=1000)
    """What was embedded: the image itself (original), or a view made by a policy with all its settings and its seed."""
    reduction: Literal["none"] = "none"
    """How tokens were merged or dropped inside the backbone."""
    tag: str | None = Field(default=None, min_length=1, max_length=300)
    """Name of an open_clip model's pretrained weights, which determines its preprocessing."""
    layer: int | None = Field(default=None, ge=-500, le=-2)
    """Block whose output was pooled, counted from the end: -2 is the last but one; None is the model's final output."""
    final_norm: bool | None = None
    """Whether the model's final normalisation was applied to an earlier layer; None for the model's final output."""
    gem_p: float | None = Field(default=None, ge=1, le=100)
    """Exponent of the generalised mean."""
    output: str | None = Field(default=None, min_length=1, max_length=300)
    """Name of the output, if the model has named outputs."""
    prefix_tokens: int | None = Field(default=None, ge=0, le=1000)
    """Number of class and register tokens before the patch tokens, excluded from the mean of the patch tokens."""
    rope_periods: Literal["float32", "bfloat16"] | None = None
    """Number type of the periods of rotary position embeddings, if the provider fixes it."""
    intensity_range: IntensityRange | None = None
    """Grey values that become 0 and 255 in images of more than 8 bits; None uses all 16 bits."""

    @model_validator(mode="after")
    def _is_resolved(self) -> Self:
        unknown = unknown_fields(self)
        if self.provider != "external" and unknown:
            raise ValueError(
                f"a recipe of provider {self.provider!r} must state every field, but lacks {', '.join(unknown)}. Only "
                "recipes of provider 'external' may have unknown fields."
            )
        return self

    @model_serializer(mode="wrap")
    def _without_idle_fields(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        tree: dict[str, Any] = handler(self)
        return {name: value for name, value in tree.items() if name not in _ADDED or value is not None}

    @property
    def hash(self) -> str:
        """First 12 hex digits of the SHA-256 of the fields of `model_dump` as key-sorted JSON."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def unknown_fields(recipe: Recipe) -> list[str]:
    """Return the required fields whose value is unknown, in field order.

    >>> unknown_fields(Recipe(provider="external", model="mine"))[:2]
    ['weights_sha256', 'size']
    """
    required = [name for name in Recipe.model_fields if name not in _ADDED]
    return [name for name in required if getattr(recipe, name) in (None, UNKNOWN)]


def differences(first: Recipe, second: Recipe) -> dict[str, tuple[Any, Any]]:
    """Return the fields in which two recipes differ, with both values.

    >>> differences(Recipe(provider="external", model="a"), Recipe(provider="external", model="b"))
    {'model': ('a', 'b')}
    """
    pairs = {name: (getattr(first, name), getattr(second, name)) for name in Recipe.model_fields}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def provenance(device: torch.device, libraries: Sequence[str] = ()) -> dict[str, str]:
    """Return the device and library versions; a mismatch only warns, as it changes at most the low bits of vectors.

    Args:
        device: device of the model.
        libraries: names of further distributions, besides those that every backbone uses.
    """
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    facts = {"device": f"{device.type} ({name})", "python": platform.python_version()}
    return facts | _versions((*_LIBRARIES, *libraries))


def _versions(names: Sequence[str]) -> dict[str, str]:
    versions = {}
    for name in names:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return versions
