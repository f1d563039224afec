"""What every provider returns: a frozen model with its recipes, which prepares images and embeds batches."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import torch
from torch import nn

from frostbench.embedcache.backbones.pooling import PoolingName
from frostbench.embedcache.backbones.tower import Features, Tower
from frostbench.embedcache.preprocess import prepare_image
from frostbench.embedcache.recipe import Autocast, Recipe, provenance

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

Forward = Callable[[torch.Tensor], Features]


class NotFiniteError(ValueError):
    """A backbone gave NaN or infinity.

    Attributes:
        rows: positions in the batch.
    """

    def __init__(self, message: str, rows: list[int]) -> None:
        super().__init__(message)
        self.rows = rows


@dataclass(frozen=True)
class Backbone:
    """A frozen model in evaluation mode.

    Attributes:
        tower: the network without its classifier, float32 weights, and its poolings.
        forward: from normalised images to the features that the columns need; compiled, if that was asked for.
        poolings: what is stored in each column.
        recipes: the recipe of each column; they differ in the pooling only.
        dims: D of each column.
        tokens: T of each column of tokens [T, D]; other columns are absent.
        device: where the model is.
        compiled: whether torch.compile made the forward pass.
    """

    tower: Tower
    forward: Forward
    poolings: Mapping[str, PoolingName]
    recipes: Mapping[str, Recipe]
    dims: Mapping[str, int]
    tokens: Mapping[str, int]
    device: torch.device
    compiled: bool = False

    @property
    def model(self) -> nn.Module:
        """The network."""
        return self.tower.model

    @property
    def recipe(self) -> Recipe:
        """The recipe of the first column, for what all columns share: the preparation and the number type."""
        return next(iter(self.recipes.values()))

    @property
    def provenance(self) -> dict[str, str]:
        """Library versions and device, which may move the low bits."""
        found = provenance(self.device, self.tower.libraries)
        return found | {"compiler": "torch.compile"} if self.compiled else found

    @property
    def batch(self) -> int:
        """How many images at once suit the device: on a CPU few, so that activations stay in its caches."""
        return 16 if self.device.type == "cpu" else 64

    @property
    def runs_beside_itself(self) -> bool:
        """Whether several threads gain by embedding at the same time: on a CPU, by torch's own kernels."""
        return self.device.type == "cpu" and not self.compiled and self.recipe.provider != "onnx"

    def prepare(self, image: np.ndarray) -> torch.Tensor:
        """Resize and crop a decoded image uint8 [H, W, 3] to uint8 [3, S, S]; safe in many threads."""
        return prepare_image(image, self.recipe)

    @torch.inference_mode()
    def embed(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
        """Embed prepared images.

        Args:
            batch: uint8 [B, 3, S, S].

        Returns:
            By column, float32 [B, D] on the CPU, or [B, T, D] of a column of tokens.

        Raises:
            TypeError: the batch is not uint8; scaling would be wrong by 255.
            NotFiniteError: the model gave NaN or infinity.
        """
        if batch.dtype != torch.uint8:
            raise TypeError(f"a batch must be uint8 in 0..255, however: {batch.dtype} came. Use Backbone.prepare.")
        x = self.normalise(batch.to(self.device, non_blocking=True))
        dtype = _DTYPES[self.recipe.autocast]
        with torch.autocast(self.device.type, dtype=dtype, enabled=dtype != torch.float32):
            found = self.forward(x)
        # Pooling means many values: it runs in float32, whatever the matrix products ran in.
        features = {name: value.float() for name, value in found.items()}
        pooled = {column: self.tower.pool(features, name).float().cpu() for column, name in self.poolings.items()}
        for name, value in pooled.items():
            _check_finite(name, value, self.recipe)
        return pooled

    def normalise(self, batch: torch.Tensor) -> torch.Tensor:
        """Images uint8 [B, 3, S, S] on the device to float32, by the recipe's mean and standard deviation."""
        mean, std = (
            torch.tensor(numbers, device=self.device).view(1, 3, 1, 1)
            for numbers in (self.recipe.mean, self.recipe.std)
        )
        x = batch.float().div_(255).sub_(mean).div_(std)
        return x.contiguous(memory_format=torch.channels_last)


def resolve_device(text: str) -> torch.device:
    """The device of a name, if it is here: "cpu", "cuda", "cuda:1" or "mps".

    >>> resolve_device("cpu")
    device(type='cpu')

    Raises:
        ValueError: there is no such kind of device, or this machine or this build of torch lacks it.
    """
    kinds = "the device must be cpu, cuda, cuda:N or mps"
    try:
        device = torch.device(text)
    except RuntimeError as error:
        raise ValueError(f"{kinds}, however: {text!r} came. Choose one of them.") from error
    present = {
        "cpu": 1,
        "cuda": torch.cuda.device_count() if torch.cuda.is_available() else 0,
        "mps": int(torch.backends.mps.is_available()),
    }
    if device.type not in present:
        raise ValueError(f"{kinds}, however: {text!r} came. Choose one of them.")
    if (device.index or 0) >= present[device.type]:
        raise ValueError(
            f"the device must be present, however: {text!r} was asked for and torch {torch.__version__} sees "
            f"{present[device.type]} devices of kind {device.type}. Choose cpu, or install a driver and a torch for "
            "the device."
        )
    return device


def resolve_autocast(autocast: str, device: torch.device, model: str) -> Autocast:
    """The number type of matrix products and convolutions.

    "auto" is bfloat16 where the hardware multiplies it natively (CUDA devices with bfloat16, CPUs with AVX512-BF16 or
    AMX) and float32 elsewhere, where it would only be slower.

    Raises:
        ValueError: an unknown type, or float16 for a DINOv3 model.
    """
    if autocast == "auto":
        return "bfloat16" if _has_bfloat16(device) else "float32"
    if autocast not in ("float32", "bfloat16", "float16"):
        raise ValueError(
            f"autocast must be auto, float32, bfloat16 or float16, however: {autocast!r} came. Choose one of them."
        )
    if autocast == "float16" and "dinov3" in model.lower():
        refuse_float16(model)
    return autocast  # type: ignore[return-value]


def refuse_float16(model: str) -> NoReturn:
    """Say why a DINOv3 model does not run in float16.

    Raises:
        ValueError: always. See huggingface/transformers issue 41885 and NVIDIA/TensorRT issue 4723.
    """
    raise ValueError(
        f"DINOv3 models must not run in float16, however: autocast='float16' was asked for {model}. Their activations "
        "leave its range, which gives NaN or plausible-looking garbage. Choose bfloat16 or float32."
    )


def _has_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def _check_finite(name: str, value: torch.Tensor, recipe: Recipe) -> None:
    finite = torch.isfinite(value).flatten(1).all(dim=1)
    if not bool(finite.all()):
        rows = torch.nonzero(~finite).flatten().tolist()
        raise NotFiniteError(
            f"vectors must be finite, however: column {name!r} of {recipe.model} has NaN or infinity in rows {rows} of "
            f"the batch under autocast {recipe.autocast}. Use float32, and check that the weights belong to the model.",
            rows,
        )
